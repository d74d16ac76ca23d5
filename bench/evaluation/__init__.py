"""What an evaluation at another site waits for its checkpoint, with two real HDFS and a line.

Run ``python -m bench.evaluation``. Ranks of two hosts load the model out of a training checkpoint
of thousands of small tensors: with ``torch.distributed.checkpoint`` over fsspec through the line,
with headrace's reader through the line, and with it from the copy that was made in the background.
Also how soon a checkpoint that was just saved can be read at the far side, against copying its
files in parallel, and what an urgent one waits while others are on their way.
"""
