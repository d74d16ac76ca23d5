"""Batches of map-style datasets of torch: made by the dataset's own code, in worker processes."""
