"""Says of a user's own data whether storage-side transforms, or what else, would help."""
