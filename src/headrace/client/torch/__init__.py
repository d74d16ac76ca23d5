"""The loader for PyTorch: the only room that imports torch."""
