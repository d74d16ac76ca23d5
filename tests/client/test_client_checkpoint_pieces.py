"""Pieces as arrays say what the metadata's own objects say."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import MetadataIndex

from headrace.client.torch.checkpoint.pieces import Pieces
from headrace.storage.port import FileRange

INDICES = st.builds(
    MetadataIndex,
    st.text(max_size=3),
    st.none() | st.lists(st.integers(0, (1 << 63) - 1), max_size=3),
    st.none() | st.integers(0, 9),
)
INFOS = st.builds(
    _StorageInfo,
    st.sampled_from(["a", "b/c"]),
    st.integers(0, 1 << 62),
    st.integers(0, 1 << 62),
    st.none() | st.just(["zstd"]),
)


@given(st.dictionaries(INDICES, INFOS), INDICES)
def test_pieces_are_what_they_were_made_of(
    places: dict[MetadataIndex, _StorageInfo], other: MetadataIndex
) -> None:
    for pieces in (Pieces(places), pickle.loads(pickle.dumps(Pieces(places)))):
        assert dict(pieces) == places
        assert [index.index for index in pieces] == [index.index for index in places]
        assert pieces.lengths.tolist() == [info.length for info in places.values()]
        assert (other in pieces, pieces.get(other)) == (other in places, places.get(other))
        for number, (index, info) in enumerate(places.items()):
            assert pieces.number(index) == number
            place = FileRange(info.relative_path, info.offset, info.length)
            assert (pieces.info(number), pieces.place(number)) == (info, place)
