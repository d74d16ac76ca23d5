"""Values, errors and small pure helpers that every room may use."""
