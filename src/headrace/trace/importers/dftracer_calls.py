"""Says what kind of event a call is that DFTracer saw, by its category and name.

Categories and names are those of DFTracer's POSIX and STDIO layers, of DLIO, and of
``dftracer.python.ai``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from headrace.trace.events import Kind


class Role(StrEnum):
    """What a call is in a loop over batches."""

    FETCH = "fetch"
    """It waited for the batch of the step that follows."""

    BODY = "body"
    """It is a step without the wait before it."""

    WORK = "work"
    """It is the work on a batch, by which DLIO's last step is told: that has no body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a category and a name mean."""

    kind: Kind
    is_write: bool | None = None
    """Of a request."""

    counts_items: bool = False
    """Its result counts items of ``size`` bytes, not bytes."""

    is_of_sample: bool = False
    """Its ``image_idx`` is the sample that it worked on."""

    role: Role | None = None


_CALL = Call(kind=Kind.CALL)
_READS = frozenset({"read", "pread", "readv", "preadv", "fread", "sendfile"})
_WRITES = frozenset({"write", "pwrite", "writev", "pwritev", "fwrite"})
_ITEMS = frozenset({"fread", "fwrite"})
_LOOKUPS = re.compile(
    "access|ch(dir|mod|own)|f?close(dir)?|creat|dup|fcntl|f?(re|d)?open(at|dir)?|f?seeko?|ftello?"
    "|f?truncate|getcwd|(sym)?link|lseek|mkdir|re(addir|adlink|move|name|wind)|rmdir|unlink(at)?"
    "|.*stat(fs|vfs|at|x)?"
)
_SAVES = ("save_checkpoint", ".checkpoint", "capture")
_RESTORES = ("load_checkpoint", "restart")


@lru_cache(maxsize=65_536)
def call_of(category: str, name: str) -> Call:
    """Return what a call is."""
    meaning = _CATEGORIES.get(category.lower())
    return meaning(name) if meaning else _CALL


def _file_call(name: str) -> Call:
    plain = name.lstrip("_").removesuffix("_chk").removesuffix("64")
    if plain in _READS:
        return Call(kind=Kind.REQUEST, is_write=False, counts_items=plain in _ITEMS)
    if plain in _WRITES:
        return Call(kind=Kind.REQUEST, is_write=True, counts_items=plain in _ITEMS)
    if _LOOKUPS.fullmatch(plain):
        return Call(kind=Kind.METADATA)
    return _CALL


def _checkpoint_call(name: str) -> Call:
    if name.endswith(_SAVES):
        return Call(kind=Kind.CHECKPOINT_SAVE)
    if name.endswith(_RESTORES):
        return Call(kind=Kind.CHECKPOINT_READ)
    return _CALL


def _compute_call(_name: str) -> Call:
    return Call(kind=Kind.COMPUTE)


def _framework_call(name: str) -> Call:
    if name.endswith("Framework.compute"):
        return Call(kind=Kind.COMPUTE, role=Role.WORK)
    return _CALL


def _collective(_name: str) -> Call:
    return Call(kind=Kind.BARRIER)


def _mpi_call(name: str) -> Call:
    return Call(kind=Kind.BARRIER) if "barrier" in name.lower() else _CALL


def _loader_call(name: str) -> Call:
    if name.endswith(".iter") or name == "fetch":
        return Call(kind=Kind.WAIT, role=Role.FETCH)
    if name.endswith((".yield", ".block")):
        return Call(kind=Kind.CALL, role=Role.BODY)
    if name.endswith("__getitem__") or name == "item":
        return Call(kind=Kind.LOAD, is_of_sample=True)
    if name == "preprocess":
        return Call(kind=Kind.TRANSFORMATION, is_of_sample=True)
    if name.endswith(".io.read"):
        return Call(kind=Kind.RETRIEVAL, is_of_sample=True)
    return _CALL


def _reader_call(name: str) -> Call:
    """Return what a reader of DLIO did.

    HDF5 reads its samples after it opened the file; other readers read all of it then.
    """
    if name.endswith(".preprocess"):
        return Call(kind=Kind.TRANSFORMATION, is_of_sample=True)
    reads = ".get_sample" if name.startswith("HDF5") else ".open"
    return Call(kind=Kind.RETRIEVAL, is_of_sample=True) if name.endswith(reads) else _CALL


_CATEGORIES: dict[str, Callable[[str], Call]] = {
    "posix": _file_call,
    "stdio": _file_call,
    "checkpoint": _checkpoint_call,
    "comm": _collective,
    "mpi": _mpi_call,
    "compute": _compute_call,
    "ai_framework": _framework_call,
    "data_loader": _loader_call,
    "dataloader": _loader_call,
    "data": _loader_call,
    "dlio_benchmark": _loader_call,
    "reader": _reader_call,
}
