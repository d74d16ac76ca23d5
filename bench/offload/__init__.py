"""What moving preparation to storage hosts is worth, measured on an emulated cluster.

Run ``python -m bench.offload``. One trainer host whose CPU is capped reads a multimodal
dataset from HDFS, first with a torch DataLoader that decodes there, then with headrace,
whose agents decode beside the DataNodes. Both make the same batches, bit by bit.
"""
