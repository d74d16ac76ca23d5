"""Carries out one rank's plan to load: which bytes to ask for, and where they go.

In two waves, so that few requests suffice and no large tensor is held twice. The first brings
small pieces whole, and of large ones the beginning, which tells where their numbers lie. The
second brings the rest of these: only what is wanted, straight into place where that is possible.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TypeAlias

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo, _StorageReaderTransforms
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlanner, ReadItem

from headrace.client.checkpoint.bundles import Bundle
from headrace.client.checkpoint.fetch import RangeFetcher
from headrace.client.checkpoint.savedtensor import HEAD_BYTES
from headrace.client.checkpoint.sharing import Claim
from headrace.client.torch.checkpoint.placing import Box, fill, fill_whole, find_box, memory_of
from headrace.core.errors import CorruptDataError
from headrace.storage.port import FileRange

WHOLE_BYTES = 256 << 10
"""Pieces up to this are read whole even if only some rows are wanted: it takes less time than
another round trip [bytes]."""

MOSTLY = 0.875
"""Share of a piece from which on it counts as wanted as a whole."""


@dataclass(slots=True)
class Want:
    """One item of the plan, and the piece of the checkpoint that holds it."""

    item: ReadItem
    number: int
    """Of the piece."""

    info: _StorageInfo
    target: torch.Tensor | None = None
    """What the item is to be loaded into, once the planner was asked."""

    @property
    def name(self) -> str:
        """What the piece is called in errors."""
        return f"{self.item.storage_index.fqn} in {self.info.relative_path}"

    @property
    def is_plain(self) -> bool:
        """Whether it is a tensor as ``torch.save`` writes it."""
        return self.item.type is LoadItemType.TENSOR and not self.info.transform_descriptors

    def expected_bytes(self, itemsize: int) -> int:
        """Return about how many bytes are read for the item.

        Args:
            itemsize: Of one number of the tensor [bytes].
        """
        if not self.is_plain or self.info.length <= WHOLE_BYTES:
            return self.info.length
        return min(math.prod(self.item.lengths) * itemsize + HEAD_BYTES, self.info.length)

    def range(self, begin: int = 0, end: int | None = None) -> FileRange:
        """Return some bytes of the piece as bytes of its file."""
        end = self.info.length if end is None else end
        return FileRange(self.info.relative_path, self.info.offset + begin, end - begin)


Wants: TypeAlias = Mapping[int, Sequence[Want]]
"""By the number of the piece."""


class Brought:
    """A bundle that this rank reads for all ranks of its host."""

    def __init__(self, bundle: Bundle, claim: Claim, wants: Wants) -> None:
        self.wants = wants
        """What this rank itself wants."""

        self.ranges = dict(zip(bundle.pieces, bundle.ranges, strict=True))
        self._bundle = bundle
        self._claim = claim

    def memories(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the pieces and where each is to be read to."""
        for piece, start in zip(self._bundle.pieces, self._bundle.starts, strict=True):
            yield piece, self._claim.memory[start : start + self.ranges[piece].length]

    def take(self, piece: int) -> None:
        """Take note that a piece was read; the others see all of them when the last one is."""
        del self.ranges[piece]
        if not self.ranges:
            self._claim.publish()


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is still to be read of a piece whose beginning was read."""

    want: Want
    range: FileRange
    box: Box | None = None
    """None: all of the piece, for ``torch.load``."""

    memory: memoryview | None = None
    """Where the bytes go; None: wherever."""


class Loading:
    """Loads items into the tensors and objects that a planner names. For one thread."""

    def __init__(
        self,
        planner: LoadPlanner,
        fetcher: RangeFetcher,
        transforms: _StorageReaderTransforms,
        *,
        request_bytes: int,
        trusted: bool,
    ) -> None:
        """Prepare to load.

        Args:
            planner: Whose tensors are filled.
            fetcher: What reads the files.
            transforms: For pieces that were transformed.
            request_bytes: Longest request of the fetcher.
            trusted: Hand over objects whose pickles may run code.
        """
        self._planner = planner
        self._fetcher = fetcher
        self._transforms = transforms
        self._request_bytes = request_bytes
        self._trusted = trusted
        self._second: list[_Rest] = []
        self._harmless: set[bytes] = set()
        """Objects that were looked at; optimizers have thousands of the same few."""

    def load(self, wants: Sequence[Want], brought: Sequence[Brought] = ()) -> None:
        """Read and place everything.

        Args:
            wants: What only this rank wants.
            brought: What it reads for all ranks of its host.

        Raises:
            CorruptDataError: what was read is not what the metadata says, or may run code.
            StorageError: something could not be read.
        """
        ranges = [self._first_range(want) for want in wants]
        into: dict[int, memoryview] = {}
        pieces: dict[int, tuple[Brought, int]] = {}
        for one in brought:
            for piece, memory in one.memories():
                into[len(ranges)], pieces[len(ranges)] = memory, (one, piece)
                ranges.append(one.ranges[piece])
        for index, data in self._fetcher.fetch(ranges, into):
            if index in pieces:
                self._take_piece(*pieces[index], data)
            else:
                self._take_first(wants[index], data)
        self._load_second()

    def place_all(self, bundle: Bundle, wants: Wants, data: memoryview) -> None:
        """Bring to their places what items want of a bundle that another rank brought."""
        for piece, start, where in zip(bundle.pieces, bundle.starts, bundle.ranges, strict=True):
            for want in wants.get(piece, ()):
                self.place(want, data[start : start + where.length])

    def place(self, want: Want, data: memoryview) -> None:
        """Bring what an item wants of a whole piece to its place."""
        if want.item.type is LoadItemType.BYTE_IO:
            self._load_object(want, data)
            return
        box = find_box(data, want.item, want.name) if want.is_plain else None
        target = self._target(want)
        if box is not None:
            begin, end = box.span
            _require_within(end, want)
            fill(target, box, data[begin:end], want.name)
        else:
            fill_whole(target, want.item, _seekable(self._stream(want, data)), want.name)
        self._planner.commit_tensor(want.item, target)

    def _take_piece(self, brought: Brought, piece: int, data: memoryview) -> None:
        brought.take(piece)
        for want in brought.wants.get(piece, ()):
            self.place(want, data)

    def _first_range(self, want: Want) -> FileRange:
        """Return the piece if it is to be read whole, else its beginning."""
        if not want.is_plain or want.info.length <= WHOLE_BYTES:
            return want.range()
        target = self._target(want)
        is_mostly = want.expected_bytes(target.itemsize) >= MOSTLY * want.info.length
        if is_mostly and want.info.length <= self._request_bytes:
            return want.range()
        to_memory = is_mostly and target.device.type == "cpu"
        return want.range(0, self._request_bytes if to_memory else HEAD_BYTES)

    def _target(self, want: Want) -> torch.Tensor:
        if want.target is None:
            want.target = self._planner.resolve_tensor(want.item).detach()
        return want.target

    def _take_first(self, want: Want, data: memoryview) -> None:
        if len(data) == want.info.length:
            self.place(want, data)
        else:
            self._second.append(self._rest(want, data))

    def _rest(self, want: Want, head: memoryview) -> _Rest:
        """Place what the beginning of a piece holds, and return what is to be read besides."""
        box = find_box(head, want.item, want.name)
        if box is None:
            return _Rest(want, want.range())
        begin, end = box.span
        _require_within(end, want)
        memory = memory_of(self._target(want), box)
        if memory is None:
            return _Rest(want, want.range(begin, end), box)
        have = head[begin:end]
        memory[: len(have)] = have
        return _Rest(want, want.range(begin + len(have), end), box, memory[len(have) :])

    def _load_second(self) -> None:
        """Read what the beginnings of large pieces did not hold."""
        rests, self._second = self._second, []
        into = {at: rest.memory for at, rest in enumerate(rests) if rest.memory is not None}
        for index, data in self._fetcher.fetch([rest.range for rest in rests], into):
            self._take_rest(rests[index], data)

    def _take_rest(self, rest: _Rest, data: memoryview) -> None:
        if rest.box is None:
            self.place(rest.want, data)
            return
        target = self._target(rest.want)
        if rest.memory is None:
            fill(target, rest.box, data, rest.want.name)
        self._planner.commit_tensor(rest.want.item, target)

    def _load_object(self, want: Want, data: memoryview) -> None:
        content = self._stream(want, data).read()
        if not self._trusted and content not in self._harmless:
            _require_harmless(content, want.name)
            self._harmless.add(content)
        self._planner.load_bytes(want.item, io.BytesIO(content))

    def _stream(self, want: Want, data: memoryview) -> IO[bytes]:
        return self._transforms.transform_load_stream(
            want.item, want.info.transform_descriptors or (), io.BytesIO(data)
        )


def _seekable(stream: IO[bytes]) -> IO[bytes]:
    return stream if stream.seekable() else io.BytesIO(stream.read())


def _require_within(end: int, want: Want) -> None:
    if end > want.info.length:
        raise CorruptDataError(
            f"{want.name} is {want.info.length} bytes long, and its numbers would end at {end}; "
            "its file or the metadata is damaged"
        )


def _require_harmless(content: bytes, name: str) -> None:
    """Check that an object is plain values and tensors; the planner would run whatever it holds."""
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the damage leads to
        raise CorruptDataError(
            f"{name} is not plain data, and loading it may run code: {error}; if you trust who "
            "wrote it, allow its classes by torch.serialization.add_safe_globals, or give "
            "trusted=True"
        ) from error
