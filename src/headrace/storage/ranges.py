"""Cuts what a caller asks for into what is fetched. Pure.

Ranges that lie close together are fetched as one (each fetch costs a round trip), and a long
one in parts, so that several nodes or connections deliver it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.storage.port import ByteRange


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the file that is fetched, and which of the ranges lie in it."""

    offset: int
    end: int
    members: tuple[int, ...]


def merge(ranges: Sequence[ByteRange], gap: int) -> list[Span]:
    """Return spans, in the order of their offsets, that cover all ranges that are not empty.

    Args:
        ranges: What is wanted.
        gap: So many bytes between two ranges are rather read than left out [bytes].
    """
    spans: list[Span] = []
    members: list[int] = []
    offset = end = 0
    wanted = [at for at, one in enumerate(ranges) if one.length]
    for at in sorted(wanted, key=lambda at: ranges[at].offset):
        one = ranges[at]
        if members and one.offset > end + gap:
            spans.append(Span(offset, end, tuple(members)))
            members = []
        if not members:
            offset = end = one.offset
        members.append(at)
        end = max(end, one.offset + one.length)
    return [*spans, Span(offset, end, tuple(members))] if members else spans


def cut(span: Span, part_bytes: int) -> list[ByteRange]:
    """Return the parts of a span: cut at multiples of the part's size, as blocks are."""
    parts = []
    offset = span.offset
    while offset < span.end:
        end = min(span.end, (offset // part_bytes + 1) * part_bytes)
        parts.append(ByteRange(offset, end - offset))
        offset = end
    return parts


def deal(spans: Sequence[Span], data: Sequence[bytes], ranges: Sequence[ByteRange]) -> list[bytes]:
    """Return the bytes of each range, out of the spans' bytes."""
    found = [b""] * len(ranges)
    for span, content in zip(spans, data, strict=True):
        for at in span.members:
            start = ranges[at].offset - span.offset
            whole = len(content) == ranges[at].length
            found[at] = content if whole else content[start : start + ranges[at].length]
    return found
