"""Safetensors files on any store, opened as ``safetensors.safe_open`` opens local ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from headrace.checkpoint.jsonobject import shown
from headrace.checkpoint.safetensors import DTYPES, TensorEntry
from headrace.client.checkpoint.checkpointlog import CheckpointLog
from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.tensorfiles import TensorFiles
from headrace.client.checkpoint.tensorslice import plan_slice
from headrace.client.checkpoint.tensorsource import (
    Block,
    Octets,
    SafetensorsStatistics,
    TensorSource,
)
from headrace.client.checkpoint.wholefiles import read_whole
from headrace.core.errors import CallerError, CorruptDataError


class MakesTensors(Protocol):
    """Makes a framework's tensors of bytes, without copying them where they are to stay."""

    @property
    def on_host(self) -> bool:
        """Whether tensors stay in this host's memory."""
        ...

    def check(self, entry: TensorEntry) -> None:
        """Refuse a tensor that the framework cannot have, before it is read.

        Raises:
            CallerError: it has no such dtype; says what to do.
        """
        ...

    def make(self, entry: TensorEntry, shape: tuple[int, ...], octets: Octets) -> Any:
        """Return a tensor on this host over all of ``octets``.

        Args:
            entry: The tensor of the file, for its dtype.
            shape: Of what is in ``octets``: the tensor, or some of its rows.
            octets: Its bytes.
        """
        ...

    def take(self, tensor: Any, index: tuple[Any, ...]) -> Any:
        """Return a part of a tensor, contiguous."""
        ...

    def place(self, tensor: Any) -> Any:
        """Return a tensor where it is to stay, such as on an accelerator."""
        ...


class OpenSafetensors:
    """One safetensors file, or those of a folder together. Thread-safe.

    Read lazily: opening looks the files up, the first use reads their headers.
    """

    def __init__(self, source: TensorSource, maker: MakesTensors) -> None:
        self._source = source
        self._maker = maker

    def keys(self) -> list[str]:
        """Return all tensors' names."""
        return self._source.names()

    def metadata(self) -> dict[str, str] | None:
        """Return the texts in the files' headers; None: there are none."""
        return self._source.metadata()

    def get_tensor(self, name: str) -> Any:
        """Read one tensor whole.

        Raises:
            CallerError: there is none of that name, or the framework has no such dtype.
            CorruptDataError: its file is damaged or hostile.
            StorageError: it cannot be read.
        """
        ((_, tensor),) = self.get_tensors([name])
        return tensor

    def get_tensors(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, Any]]:
        """Read several tensors together, and yield them with their names as they come.

        Neighbours are read in one request, many requests at a time.

        Args:
            names: Which; None: all.

        Raises:
            CallerError: as ``get_tensor``.
            CorruptDataError: as ``get_tensor``.
            StorageError: as ``get_tensor``.
        """
        wanted = self._source.names() if names is None else list(names)
        entries = self._source.entries(wanted)
        for entry in entries:
            self._maker.check(entry)
        blocks = [Block(entry.name, 0, entry.length) for entry in entries]
        for index, octets in self._source.read(blocks):
            tensor = _made(self._maker, entries[index], entries[index].shape, octets)
            yield entries[index].name, self._maker.place(tensor)

    def get_slice(self, name: str) -> TensorSlice:
        """Return what can be indexed like a tensor, and then reads only the rows needed.

        Raises:
            CallerError: as ``get_tensor``; also a type of less than a byte.
            CorruptDataError: as ``get_tensor``.
        """
        (entry,) = self._source.entries([name])
        if DTYPES[entry.dtype].bits % 8:
            raise CallerError(
                f"tensor {shown(name)} is {entry.dtype}, of which several numbers share a byte; "
                "read it whole by get_tensor"
            )
        self._maker.check(entry)
        return TensorSlice(self._source, self._maker, entry)

    def statistics(self) -> SafetensorsStatistics:
        """Return what was read up to now."""
        return self._source.statistics()

    def close(self) -> None:
        """Close the store; tensors that were read stay. Nothing more can be read."""
        self._source.close()

    def __enter__(self) -> OpenSafetensors:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load_tensors(
    found: TensorFiles, maker: MakesTensors, limits: FetchLimits, log: CheckpointLog
) -> dict[str, Any]:
    """Return all tensors by name.

    On the host they share the memory that their files are read into whole. Otherwise they are
    read one by one, as a file may be larger than the host's memory.

    Raises:
        CallerError: the framework lacks a dtype.
        NotFoundError: a file is not there.
        CorruptDataError: a header or the index is damaged or hostile.
        StorageError: something cannot be read.
    """
    if maker.on_host:
        return {
            entry.name: _made(maker, entry, entry.shape, octets)
            for entry, octets in read_whole(found, limits=limits, check=maker.check, log=log)
        }
    tensors = OpenSafetensors(TensorSource(found, limits, log), maker)
    names = tensors.keys()
    placed = dict(tensors.get_tensors(names))
    return {name: placed[name] for name in names}


class TensorSlice:
    """A tensor that is not read yet: ``[…]`` reads the rows that it needs."""

    def __init__(self, source: TensorSource, maker: MakesTensors, entry: TensorEntry) -> None:
        self._source = source
        self._maker = maker
        self._entry = entry

    def get_shape(self) -> list[int]:
        """Return the whole tensor's shape."""
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        """Return its dtype by the format's name, such as ``BF16``."""
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Any:
        """Read a part of the tensor.

        Raises:
            IndexError: it lies outside of the tensor.
            StorageError: it cannot be read.
        """
        plan = plan_slice(index, self._entry.shape, DTYPES[self._entry.dtype].bits // 8)
        block = Block(self._entry.name, plan.offset, plan.length)
        ((_, octets),) = self._source.read([block])
        tensor = _made(self._maker, self._entry, plan.shape, octets)
        return self._maker.place(self._maker.take(tensor, plan.index))


class NumpyTensors:
    """Makes numpy arrays, which are writable."""

    on_host = True

    def check(self, entry: TensorEntry) -> None:
        """Refuse dtypes that numpy has not."""
        if entry.dtype not in _NUMPY:
            raise CallerError(
                f"numpy has no {DTYPES[entry.dtype].torch_name}, which tensor {shown(entry.name)} "
                'is of; open the file with framework="pt"'
            )

    def make(self, entry: TensorEntry, shape: tuple[int, ...], octets: Octets) -> Any:
        """Return an array over the bytes."""
        return octets.view(_NUMPY[entry.dtype]).reshape(shape)

    def take(self, tensor: Any, index: tuple[Any, ...]) -> Any:
        """Return a part of an array."""
        return np.asarray(tensor[index], order="C")

    def place(self, tensor: Any) -> Any:
        """Return the array: it stays where it is."""
        return tensor


_NUMPY = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "I16": np.int16,
    "U16": np.uint16,
    "F16": np.float16,
    "I32": np.int32,
    "U32": np.uint32,
    "F32": np.float32,
    "C64": np.complex64,
    "F64": np.float64,
    "I64": np.int64,
    "U64": np.uint64,
}


def _made(maker: MakesTensors, entry: TensorEntry, shape: tuple[int, ...], octets: Octets) -> Any:
    try:
        return maker.make(entry, shape, octets)
    except (ValueError, OverflowError, RuntimeError, TypeError) as error:
        raise CorruptDataError(
            f"tensor {shown(entry.name)} has the shape {shown(entry.shape)}, which no tensor can "
            f"have: {error}"
        ) from error
