"""The storage port and its backends."""
