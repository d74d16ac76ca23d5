"""Values, errors and small pure functions that every room may use."""
