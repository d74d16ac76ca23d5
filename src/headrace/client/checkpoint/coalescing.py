"""Turns the byte ranges that are wanted of files into few, large requests.

Pure arithmetic. Ranges that lie near each other in a file become one request; a range longer
than a request becomes several. Files take turns, so that requests in flight meet many nodes of
a store instead of the one that holds the file that happens to be first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from headrace.core.errors import CallerError, ConfigError
from headrace.storage.port import FileRange


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchLimits:
    """How ranges are read."""

    parallel: int = 16
    """Requests in flight; with 8 MiB each, enough for 4 GB/s over a round trip of 30 ms."""

    gap_bytes: int = 256 << 10
    """Longest unwanted stretch that is read along rather than asked around [bytes]: at 100 MB/s
    for each request, it takes a tenth of a round trip of 30 ms."""

    request_bytes: int = 8 << 20
    """Longest request; longer ranges are read in parts [bytes]."""

    memory_bytes: int = 256 << 20
    """What may have been read, or asked for, and not been taken yet [bytes]; a single range
    without a destination may be longer. Parts of long ranges on their way, at most ``parallel``
    times ``request_bytes``, come on top."""

    attempts: int = 3
    """Times that a request is tried when the store fails; stores try again by themselves, too."""

    def __post_init__(self) -> None:
        for name in ("parallel", "request_bytes", "memory_bytes", "attempts"):
            if getattr(self, name) < 1:
                raise ConfigError(f"fetch.{name}={getattr(self, name)} must be 1 or more")
        if self.gap_bytes < 0:
            raise ConfigError(f"fetch.gap_bytes={self.gap_bytes} must be 0 or more")


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one wanted range inside a request."""

    index: int
    """Of the range among those wanted."""

    at: int
    """Where they begin in the range [bytes]."""

    start: int
    """Where they begin in the request [bytes]."""

    length: int


@dataclass(frozen=True, slots=True)
class Request:
    """One read of a file."""

    path: str
    offset: int
    length: int
    parts: tuple[Part, ...]
    """What it brings: several whole ranges, or one part of a long one."""


def plan_requests(wanted: Sequence[FileRange], limits: FetchLimits) -> list[Request]:
    """Return what to read, in the order in which to ask; empty ranges need no request.

    Parts of one long range follow each other in the list.

    Raises:
        CallerError: a range begins or ends before the start of its file.
    """
    files: dict[str, list[int]] = {}
    for index, one in enumerate(wanted):
        if one.offset < 0 or one.length < 0:
            raise CallerError(f"{one} does not lie in a file; offsets and lengths are 0 or more")
        if one.length:
            files.setdefault(one.path, []).append(index)
    turns = zip_longest(*(_units(wanted, indices, limits) for indices in files.values()))
    return [request for turn in turns for unit in turn if unit for request in unit]


def _units(
    wanted: Sequence[FileRange], indices: list[int], limits: FetchLimits
) -> Iterator[list[Request]]:
    """Yield a file's requests by offset: one for a group of ranges, or all of a long range."""
    group: list[int] = []
    begin = end = 0
    for index in sorted(indices, key=lambda i: (wanted[i].offset, wanted[i].length)):
        one = wanted[index]
        is_long, last = one.length > limits.request_bytes, one.offset + one.length
        is_apart = one.offset - end > limits.gap_bytes or last - begin > limits.request_bytes
        if group and (is_long or is_apart):
            yield [_join(wanted, group, begin, end)]
            group = []
        if is_long:
            yield _split(one, index, limits.request_bytes)
            continue
        if not group:
            begin, end = one.offset, last
        group.append(index)
        end = max(end, last)
    if group:
        yield [_join(wanted, group, begin, end)]


def _split(one: FileRange, index: int, most: int) -> list[Request]:
    """Cut a long range into parts of nearly equal lengths."""
    count = -(-one.length // most)
    ends = [one.length * number // count for number in range(count + 1)]
    return [
        Request(one.path, one.offset + at, end - at, (Part(index, at, 0, end - at),))
        for at, end in pairwise(ends)
    ]


def _join(wanted: Sequence[FileRange], group: list[int], begin: int, end: int) -> Request:
    parts = tuple(
        Part(index, 0, wanted[index].offset - begin, wanted[index].length) for index in group
    )
    return Request(wanted[group[0]].path, begin, end - begin, parts)
