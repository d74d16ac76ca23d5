"""The storage-side daemon."""
