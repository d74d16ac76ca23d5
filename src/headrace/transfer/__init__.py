"""Moves checkpoints between stores: in chunks, verified, resumable, published last."""
