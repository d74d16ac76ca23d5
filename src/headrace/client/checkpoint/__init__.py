"""Reading and writing checkpoints; what needs torch is in ``client.torch``."""
