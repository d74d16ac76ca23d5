"""Writes one rank's part of a checkpoint: some files at once, each begun anew if it breaks."""

from __future__ import annotations

import contextlib
import io
import math
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import IO

import torch
from torch.distributed.checkpoint.filesystem import (
    _split_by_size_and_type,
    _StorageInfo,
    _StorageWriterTransforms,
)
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from headrace.checkpoint.manifest import FileDigests
from headrace.client.checkpoint.checkpointlog import CheckpointLog
from headrace.client.checkpoint.place import Place
from headrace.client.limiter import DirectLimiter
from headrace.client.torch.checkpoint.filestream import FileStream
from headrace.core.errors import HeadraceError, StorageError
from headrace.storage.port import FileWriter
from headrace.storage.writing import write_anew

FILE_BYTES = 4 << 30
"""About the longest file: what is lost when a stream breaks is written again [bytes]."""

SMALL_BYTES = 1 << 20
"""Tensors up to this are put together in memory: they are written in some twenty parts [bytes]."""


@dataclass(frozen=True)
class FileResult(WriteResult):
    """The first item of a file, with what is known of the file."""

    file: FileDigests


class Saving:
    """Writes items into files of one rank. For one save."""

    def __init__(
        self,
        planner: SavePlanner,
        place: Place,
        *,
        streams: int,
        transforms: _StorageWriterTransforms,
        limiter: DirectLimiter,
        log: CheckpointLog,
    ) -> None:
        """Prepare to write.

        Args:
            planner: Has the tensors and objects.
            place: The checkpoint's folder.
            streams: Files that are written at once.
            transforms: What extensions do to each item.
            limiter: Holds the rank to its rate.
            log: Records what the store took.
        """
        self._planner = planner
        self._place = place
        self._streams = streams
        self._transforms = transforms
        self._limiter = limiter
        self._log = log
        self._stopped = threading.Event()
        self._written: list[str] = []
        self.begun: list[str] = []
        """Paths of files, each as often as it was begun."""

    def save(self, items: Sequence[WriteItem], naming: str) -> list[WriteResult]:
        """Write everything; it is durable when this returns.

        Args:
            items: What to write.
            naming: Names of files, with ``{}`` for their number.

        Raises:
            StorageError: the store does not take them; files of this rank are gone again.
        """
        buckets = [bucket for bucket in self._buckets(items) if bucket]
        with ThreadPoolExecutor(self._streams, "headrace-save") as pool:
            files = [
                pool.submit(self._save_file, naming.format(number), bucket)
                for number, bucket in enumerate(buckets)
            ]
            failed = [one for one in wait(files, None, FIRST_EXCEPTION).done if one.exception()]
            if failed:
                self._stopped.set()
        if failed:
            self._remove_written()
        return [result for one in (failed or files) for result in one.result()]

    def _buckets(self, items: Sequence[WriteItem]) -> list[list[WriteItem]]:
        nbytes = sum(map(item_bytes, items))
        count = max(self._streams, -(-nbytes // FILE_BYTES))
        buckets: list[list[WriteItem]] = _split_by_size_and_type(count, list(items))
        return buckets

    def _save_file(self, name: str, items: Sequence[WriteItem]) -> list[WriteResult]:
        path = self._place.path(name)
        filled: list[tuple[list[WriteResult], FileStream]] = []

        def fill(writer: FileWriter) -> None:
            self.begun.append(path)
            filled[:] = [self._fill(writer, name, items)]

        info = write_anew(lambda: self._place.storage.create(path), fill)
        self._written.append(path)
        results, stream = filled[0]
        note = FileDigests(size=info.size, version=info.version, digests=stream.digests())
        first = results[0]
        results[0] = FileResult(first.index, first.size_in_bytes, first.storage_data, note)
        return results

    def _fill(
        self, writer: FileWriter, name: str, items: Sequence[WriteItem]
    ) -> tuple[list[WriteResult], FileStream]:
        stream = FileStream(writer, self._limiter, partial(self._log.wrote, name))
        results = []
        for item in sorted(items, key=lambda one: one.type is not WriteItemType.BYTE_IO):
            if self._stopped.is_set():
                raise StorageError(f"{name} is given up, as another file could not be written")
            try:
                results.append(self._write_item(stream, name, item))
            except RuntimeError as error:
                raise stream.failure or error from error
        stream.flush()
        return results, stream

    def _write_item(self, stream: FileStream, name: str, item: WriteItem) -> WriteResult:
        begin = stream.tell()
        target, descriptors = self._transforms.transform_save_stream(item, stream)
        data = self._planner.resolve_data(item)
        if isinstance(data, io.BytesIO):
            target.write(data.getbuffer())
        else:
            _save_tensor(_alone(data), target)
        target.close()
        place = _StorageInfo(name, begin, stream.tell() - begin)
        if descriptors:
            place = replace(place, transform_descriptors=descriptors)
        return WriteResult(item.index, place.length, place)

    def _remove_written(self) -> None:
        """Leave nothing of a save that failed, as far as the store lets it."""
        for path in self._written:
            with contextlib.suppress(HeadraceError):  # what went wrong first is what is told
                self._place.storage.delete(path)


def _save_tensor(tensor: torch.Tensor, target: IO[bytes]) -> None:
    if tensor.nbytes > SMALL_BYTES:
        torch.save(tensor, target)
        return
    whole = io.BytesIO()
    torch.save(tensor, whole)
    target.write(whole.getbuffer())


def item_bytes(item: WriteItem) -> int:
    """Return the length of what is written of a tensor [bytes]; an object's is not known."""
    if item.tensor_data is None:
        return 0
    return math.prod(item.tensor_data.chunk.sizes) * item.tensor_data.properties.dtype.itemsize


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the CPU whose memory holds nothing else; all of it would be saved."""
    tensor = tensor.detach().cpu()
    return tensor.clone() if tensor.untyped_storage().size() != tensor.nbytes else tensor
