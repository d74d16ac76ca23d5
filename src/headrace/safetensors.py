"""Safetensors files on any store: ``open`` as ``safetensors.safe_open`` does, and ``load_file``.

``headrace.safetensors.load_file("hdfs:///models/llama")`` reads all shards of a model in few, large
requests, many at a time. Torch is imported only where its tensors are asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from headrace.client.checkpoint.checkpointlog import open_log
from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.safetensors import (
    MakesTensors,
    NumpyTensors,
    OpenSafetensors,
    TensorSlice,
    load_tensors,
)
from headrace.client.checkpoint.tensorfiles import find_files
from headrace.client.checkpoint.tensorsource import SafetensorsStatistics, open_source
from headrace.core.errors import CallerError

if TYPE_CHECKING:
    import torch

__all__ = [
    "FetchLimits",
    "OpenSafetensors",
    "SafetensorsStatistics",
    "TensorSlice",
    "load_file",
    "open",
]

Framework = Literal["pt", "np"]


def open(
    url: str | os.PathLike[str],
    framework: Framework = "pt",
    device: str | int | torch.device = "cpu",
    *,
    limits: FetchLimits | None = None,
    trace: str | os.PathLike[str] | bool = True,
) -> OpenSafetensors:
    """Open a file, or all files of a folder; close it, or use it in a ``with`` block.

    Args:
        url: A file whose name ends with ``.safetensors``, or a folder: with an index
            (``model.safetensors.index.json``), with ``model.safetensors``, or with others.
        framework: Tensors of torch (``pt``) or arrays of numpy (``np``).
        device: Where torch's tensors are to be.
        limits: How bytes are read.
        trace: Where that is recorded, as of :class:`headrace.Loader`.

    Raises:
        CallerError: the scheme, framework or device is not known.
        NotFoundError: there is no such file or folder.
        CorruptDataError: the index is damaged or hostile.
        StorageError: the store cannot be reached.
    """
    maker = _maker(framework, device)
    return OpenSafetensors(open_source(os.fspath(url), limits=limits, trace=trace), maker)


def load_file(
    url: str | os.PathLike[str],
    device: str | int | torch.device = "cpu",
    *,
    framework: Framework = "pt",
    limits: FetchLimits | None = None,
    trace: str | os.PathLike[str] | bool = True,
) -> dict[str, Any]:
    """Return all tensors of a file or folder by name, as ``safetensors.torch.load_file`` does.

    Raises:
        CallerError: as ``open``; also where the framework lacks a dtype.
        CorruptDataError: a header or the index is damaged or hostile.
        StorageError: something cannot be read.
    """
    maker = _maker(framework, device)
    name = os.fspath(url)
    with open_log(name, trace) as log, find_files(name) as found:
        return load_tensors(found, maker, limits or FetchLimits(), log)


def _maker(framework: str, device: Any) -> MakesTensors:
    if framework == "pt":
        from headrace.client.torch.safetensors import TorchTensors

        return TorchTensors(device)
    if framework != "np":
        raise CallerError(f"framework {framework!r} is not known; it is 'pt' or 'np'")
    if str(device) != "cpu":
        raise CallerError(f"numpy has no device {str(device)!r}; use framework='pt' for it")
    return NumpyTensors()
