"""Checkpoints of ``torch.distributed.checkpoint``, read and written through any store."""
