"""Loaders of others against headrace: the same photographs, host and work, each in its process."""
