"""Reads ranges of one object: near ones as one, long ones in parts, several at a time.

All bytes of one call come from one version of the object: its answers carry the version, and
where two of them differ, the call begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.errors import StorageError
from headrace.storage.calls import calls_for
from headrace.storage.objects.address import ObjectsAddress
from headrace.storage.objects.asking import Asking, Objects, OutOfRangeError, StoreAwayError
from headrace.storage.objects.config import ObjectsConfig
from headrace.storage.objects.known import Known
from headrace.storage.port import ByteRange, FileInfo
from headrace.storage.ranges import cut, deal, merge

if TYPE_CHECKING:
    from obstore import ObjectMeta

ATTEMPTS = 4
"""Times that an object is read which is replaced meanwhile."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes that one request brought, and what its answer said of the object."""

    data: bytes
    info: FileInfo


class Reading:
    """Reads objects of one store. Thread-safe."""

    def __init__(
        self, address: ObjectsAddress, asking: Asking, known: Known, config: ObjectsConfig
    ) -> None:
        """Read through a store's requests.

        Args:
            address: The bucket, and the folder in it that is the root.
            asking: Where they are made.
            known: Told of what answers say.
            config: How much at once.
        """
        self._address = address
        self._asking = asking
        self._known = known
        self._config = config

    def stat(self, path: str) -> FileInfo:
        """Describe an object as the store does now.

        Raises: as ``Asking.ask``.
        """
        key, tried = self._address.key(path), f"stat {self._address.url_of(path)}"
        info = file_info(self._asking.ask(tried, lambda store: store.head(key)), path)
        self._known.note(info)
        return info

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return the bytes of each range.

        Raises: as ``Asking.ask``; StorageError also: a range lies beyond the end.
        """
        spans = merge(ranges, self._config.gap_bytes)
        cuts = [cut(span, self._config.part_bytes) for span in spans]
        parts = [part for span_parts in cuts for part in span_parts]
        if not parts:
            self._known.get(path) or self.stat(path)
            return [b""] * len(ranges)
        data = iter(self._of_one_version(path, lambda: self._fetch(path, parts)))
        joined = [_joined([next(data) for _ in span_parts]) for span_parts in cuts]
        return deal(spans, joined, ranges)

    def read_from(self, path: str, offset: int) -> bytes:
        """Return all bytes from ``offset`` on; where they are few, by one request.

        Raises: as ``Asking.ask``.
        """
        return _joined(self._of_one_version(path, lambda: self._fetch_rest(path, offset)))

    def _of_one_version(self, path: str, fetch: Callable[[], Sequence[_Piece]]) -> Sequence[bytes]:
        for _ in range(ATTEMPTS):
            pieces = fetch()
            if len({(piece.info.version, piece.info.size) for piece in pieces}) <= 1:
                for piece in pieces[:1]:
                    self._known.note(piece.info)
                return [piece.data for piece in pieces]
        raise StorageError(
            f"cannot read {self._address.url_of(path)}: it was replaced {ATTEMPTS} times while it "
            "was read; give what is written anew another name"
        )

    def _fetch(self, path: str, parts: Sequence[ByteRange]) -> Sequence[_Piece]:
        """Return the bytes of all parts, each by a request, several at a time."""
        *others, last = parts
        calls = calls_for("objects", self._config.requests_in_flight)
        futures = [calls.start(partial(self._get, path, part)) for part in others]
        try:
            piece = self._get(path, last)
            return [*(future.result() for future in futures), piece]
        finally:
            for future in futures:
                calls.abandon(future)

    def _fetch_rest(self, path: str, offset: int) -> Sequence[_Piece]:
        part_bytes = self._config.part_bytes
        try:
            first = self._get(path, ByteRange(offset, part_bytes), is_least=False)
        except OutOfRangeError:
            self.stat(path)
            return []
        starts = range(offset + part_bytes, first.info.size, part_bytes)
        if not starts:
            return [first]
        rest = [ByteRange(at, min(part_bytes, first.info.size - at)) for at in starts]
        return [first, *self._fetch(path, rest)]

    def _get(self, path: str, part: ByteRange, *, is_least: bool = True) -> _Piece:
        """Make one request.

        Args:
            path: The object.
            part: What is asked for; not empty.
            is_least: The object must reach so far.
        """
        key, url = self._address.key(path), self._address.url_of(path)
        tried, end = f"read {url}", part.offset + part.length

        def get(store: Objects) -> _Piece:
            answer = store.get(key, options={"range": (part.offset, end)})
            info = file_info(answer.meta, path)
            data = bytes(answer.bytes())
            promised = min(end, info.size) - part.offset
            if len(data) != promised:
                raise StoreAwayError(
                    f"cannot {tried}: the answer was cut off after {len(data)} of {promised} bytes"
                )
            return _Piece(data, info)

        try:
            piece = self._asking.ask(tried, get)
        except OutOfRangeError:
            if not is_least:
                raise
            raise StorageError(_too_short(url, self.stat(path).size, end)) from None
        if is_least and piece.info.size < end:
            raise StorageError(_too_short(url, piece.info.size, end))
        return piece


def file_info(meta: ObjectMeta, path: str) -> FileInfo:
    """Return how the port describes an object.

    The version is the entity tag, which the store makes of the content or counts up; where there
    is none, the moment of the last change. Azure quotes it in answers and not in lists.
    """
    modified_s = meta["last_modified"].timestamp()
    version = (meta["e_tag"] or str(modified_s)).removeprefix("W/").strip('"')
    return FileInfo(path, meta["size"], version, modified_s)


def _joined(pieces: Sequence[bytes]) -> bytes:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_short(url: str, size: int, end: int) -> str:
    return (
        f"{url} ends at byte {size}, but bytes up to {end} were asked for; it was replaced: "
        "restore it, or index again"
    )
