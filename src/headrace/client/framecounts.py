"""What a frame says of the sample that it brings."""

from __future__ import annotations

from headrace.client.counts import Counts
from headrace.wire.frames import FrameHeader


def made_s(header: FrameHeader) -> float:
    """Return how long an agent took to make a sample, its wait for the quota included [s]."""
    return header.throttled_s + header.read_s + header.transform_s


def link_s(header: FrameHeader, came_after_s: float) -> float:
    """Return how long a frame that came so long after it was asked for was on its way [s]."""
    return 0.0 if header.after_s is None else max(0.0, came_after_s - header.after_s)


def count_frame(
    counts: Counts,
    header: FrameHeader,
    nbytes: int,
    *,
    length: int,
    link_s: float,
) -> None:
    """Count a frame; the sample of a part is counted when it is put together.

    Args:
        counts: Of the step.
        header: Of the frame.
        nbytes: Length of its payload [bytes].
        length: Stored bytes of its sample, or part.
        link_s: How long it was on its way [s].
    """
    counts.wire_bytes += nbytes
    counts.queued_s += header.queued_s
    counts.cores_s += header.cores_s
    counts.link_s += link_s
    counts.throttled_s += header.throttled_s
    counts.read_s += header.read_s
    counts.transform_s += header.transform_s
    if header.kind == "tensor" and header.part.is_whole:
        counts.tensor += 1
        counts.ready += header.ready
        counts.shared += header.shared
    elif header.kind == "raw":
        counts.raw[header.code] += 1
    if header.fields and not header.shared:
        queued_s = header.queued_s - header.cores_s + link_s
        counts.took(queued_s + header.throttled_s + header.read_s)
        counts.tier_bytes[header.tier] += length
        if header.has_cache or header.hit:
            counts.cache_bytes += length
        if header.hit:
            counts.hit_bytes[header.tier] += length
