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
    order = sorted(range(len(ranges)), key=lambda at: ranges[at].offset)
    for at in order:
        offset, length = ranges[at].offset, ranges[at].length
        if length == 0:
            continue
        last = spans[-1] if spans else None
        if last is not None and offset <= last.end + gap:
            end = max(last.end, offset + length)
            spans[-1] = Span(last.offset, end, (*last.members, at))
        else:
            spans.append(Span(offset, offset + length, (at,)))
    return spans


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
