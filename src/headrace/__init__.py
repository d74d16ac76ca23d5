"""headrace keeps the accelerators of a pre-training job fed."""
