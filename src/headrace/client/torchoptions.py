"""What options of torch's DataLoader are called here: pure."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.errors import ConfigError

_CALLED = {
    "shuffle": 'write order="shuffle" (the default) or order="sequential"',
    "drop_last": 'write tail="drop" (the default), tail="short" or tail="pad"',
    "num_workers": "write workers=",
    "prefetch_factor": "write prefetch_steps=, counted over all workers",
    "multiprocessing_context": "leave it out; a loader's workers are threads, and "
    "headrace.torch.wrap calls it start_method=",
    "timeout": "write timeout_s=",
    "generator": "write seed=",
    "worker_init_fn": "leave it out; seed= decides the randomness of every sample, whatever "
    "worker makes it",
    "pin_memory": "leave it out; batches are pinned where there is a CUDA device",
    "persistent_workers": "leave it out; workers live as long as the loader",
    "sampler": "the order is a pure function of seed and step, so that it can be resumed; write "
    "order= and seed=",
    "batch_sampler": "write batch_size= and order=",
    "collate_fn": "batches are columns by field; end the pipeline with ops.Pad, ops.Ragged or "
    "ops.Pack for samples that differ in length. headrace.torch.wrap takes a collate_fn",
    "transform": "write pipeline=headrace.Pipeline([…])",
}


def refuse_torch_options(names: Iterable[str]) -> None:
    """Refuse names that a DataLoader or its datasets have for what is called otherwise here.

    Raises:
        ConfigError: one of ``names`` is one of them; says what to write instead.
    """
    for name in names:
        if name in _CALLED:
            raise ConfigError(f"{name!r} is an option of torch's loaders: {_CALLED[name]}")
