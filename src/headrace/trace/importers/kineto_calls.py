"""Says what kind of event it is that PyTorch's profiler saw, by its category and name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from headrace.trace.events import Kind

_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_ON_DEVICE_TOO = "gpu_user_annotation"
"""The device's shadow of what the program did; it is told by the program's own event already."""

_SYNCHRONISATION = "cuda_sync"
"""On a device's streams: work waited for other work."""

_NOTES = frozenset({"trace", _ON_DEVICE_TOO, "overhead"})
_STEP = re.compile(r"ProfilerStep#(\d{1,18})")
_WAIT = "enumerate(DataLoader)#"
_COLLECTIVES = ("record_param_comms", "gloo:", "mpi:")
_READ = re.compile(
    r"torch/serialization\.py\(\d+\): load$"
    r"|torch/distributed/checkpoint/state_dict_loader\.py\(\d+\): load$"
)
_SAVE = re.compile(
    r"torch/serialization\.py\(\d+\): save$"
    r"|torch/distributed/checkpoint/state_dict_saver\.py\(\d+\): (async_)?save$"
)


@dataclass(frozen=True, slots=True)
class Call:
    """What a category and a name mean."""

    kind: Kind
    is_on_device: bool = False


@lru_cache(maxsize=65_536)
def call_of(category: str, name: str) -> Call | None:
    """Return what an event is; none where it tells of no work of its own."""
    place = category.lower()
    if place in _NOTES:
        return None
    if place in _DEVICE:
        return Call(Kind.BARRIER if "nccl" in name else Kind.COMPUTE, is_on_device=True)
    if place == _SYNCHRONISATION:
        return Call(Kind.CALL, is_on_device=True)
    return Call(_kind(name))


def step_of(name: str) -> int | None:
    """Return which step of the profiler's an event is; none where it is no step."""
    found = _STEP.fullmatch(name)
    return int(found[1]) if found else None


def _kind(name: str) -> Kind:
    if name.startswith(_WAIT):
        return Kind.WAIT
    if _STEP.fullmatch(name):
        return Kind.STEP
    if name.startswith(_COLLECTIVES):
        return Kind.BARRIER
    if _READ.search(name):
        return Kind.CHECKPOINT_READ
    return Kind.CHECKPOINT_SAVE if _SAVE.search(name) else Kind.CALL
