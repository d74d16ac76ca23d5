"""How long a job of many ranks takes to load its checkpoint, on an emulated cluster with HDFS.

Run ``python -m bench.startup``. The baseline is ``torch.distributed.checkpoint`` over fsspec
with three copies of each block; with headrace the checkpoint is announced some seconds before,
and its reader brings once to each host what its ranks share. All load the same state, and what
they loaded is compared bit by bit.
"""
