from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.storage.port import ByteRange
from headrace.storage.ranges import cut, deal, merge

CONTENT = bytes(n % 251 for n in range(3000))

ranges_of_content = st.lists(
    st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 500)).map(
        lambda pair: ByteRange(pair[0], min(pair[1], len(CONTENT) - pair[0]))
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(ranges_of_content, st.integers(0, 300), st.integers(1, 700))
def test_what_is_fetched_gives_each_range_its_bytes(
    ranges: list[ByteRange], gap: int, part_bytes: int
) -> None:
    spans = merge(ranges, gap)
    parts = [cut(span, part_bytes) for span in spans]
    fetched = [b"".join(CONTENT[p.offset :][: p.length] for p in some) for some in parts]
    wanted = [CONTENT[r.offset :][: r.length] for r in ranges]
    assert deal(spans, fetched, ranges) == wanted
    assert all(0 < part.length <= part_bytes for some in parts for part in some)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ranges_of_content, st.integers(0, 300))
def test_spans_do_not_touch_and_begin_and_end_with_what_was_asked_for(
    ranges: list[ByteRange], gap: int
) -> None:
    spans = merge(ranges, gap)
    assert all(a.end + gap < b.offset for a, b in pairwise(spans))
    for span in spans:
        assert span.offset == min(ranges[at].offset for at in span.members)
        assert span.end == max(ranges[at].offset + ranges[at].length for at in span.members)


def test_many_ranges_that_lie_together_are_merged_in_time_that_grows_with_their_number() -> None:
    ranges = [ByteRange(100 * at, 100) for at in range(50_000)]
    begin = time.process_time()
    (span,) = merge(ranges, 0)
    assert time.process_time() - begin < 2.0
    assert span.members == tuple(range(50_000))


def test_a_range_that_is_fetched_alone_is_not_copied() -> None:
    ranges, content = [ByteRange(5, 10)], b"0123456789"
    assert deal(merge(ranges, 0), [content], ranges)[0] is content
