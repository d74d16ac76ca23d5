"""What samples a dataset has and where their bytes are."""
