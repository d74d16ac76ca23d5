"""Event schema and recorder."""
