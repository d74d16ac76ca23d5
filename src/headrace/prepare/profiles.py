"""The typical sample of each media kind, from indexes alone: what plans are made with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.core.numbered import shared_name
from headrace.dataset.index import Index
from headrace.dataset.location import SampleLocation
from headrace.dataset.media import KINDS
from headrace.transform.split import KindProfile

_CODEC_OF_ENDING = {"jpg": "jpeg", "mp4": "h264", "mov": "h264", "mkv": "h264"}
"""What a file's ending says about its format, where it is not the format's name."""

_NAMED_BY_FORMAT = ("tar", "mds")
"""Containers that call members by their formats."""

_LOOKED_AT = 16
"""Samples of a kind whose fields and formats are looked up."""


def profiles_of(indexes: Sequence[Index]) -> tuple[KindProfile, ...]:
    """Return one profile for each kind of sample that the indexes have."""
    return tuple(
        _profile(kind, parts)
        for code, kind in enumerate(KINDS)
        if (parts := [(index, rows) for index in indexes if len(rows := _rows(index, code))])
    )


def fields_of(indexes: Sequence[Index]) -> dict[str, frozenset[str]]:
    """Return the fields of each kind's records, from a few samples spread over each index."""
    found: dict[str, frozenset[str]] = {}
    for code, kind in enumerate(KINDS):
        for index in indexes:
            rows = _rows(index, code)
            for location in _looked_at(index, rows):
                names = {member.field for member in location.members} | {"label"}
                captions = {"text"} if location.text is not None else set()
                found[kind] = found.get(kind, frozenset()) | names | captions
    return found


_Rows = npt.NDArray[np.int64]
_Parts = Sequence[tuple[Index, _Rows]]


def _rows(index: Index, code: int) -> _Rows:
    return np.flatnonzero(index.kinds == code)


def _profile(kind: str, parts: _Parts) -> KindProfile:
    first, rows = max(parts, key=lambda part: len(part[1]))
    return KindProfile(
        kind=kind,
        nbytes=_mean("length", parts, 0.0),
        samples=sum(len(rows) for _, rows in parts),
        values=_mean_values(kind, first, rows),
        width=_mean("width", parts, 0.0),
        height=_mean("height", parts, 0.0),
        frames=_mean("frames", parts, 1.0),
        duration_s=_mean("duration_s", parts, 0.0),
        gops=max(_mean_keyframes(parts), 1.0),
        codec=_commonest_codec(first, rows),
    )


def _mean(column: str, parts: _Parts, default: float) -> float:
    values = np.concatenate([index.column(column)[rows].astype(float) for index, rows in parts])
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else default


def _mean_keyframes(parts: _Parts) -> float:
    counts = [
        pc.list_value_length(index.table.column("keyframes")).to_numpy()[rows]
        for index, rows in parts
    ]
    return float(np.concatenate(counts).mean())


def _mean_values(kind: str, index: Index, rows: _Rows) -> float:
    """Return how many values of its kind's field a sample has: pictures of a document."""
    counts = [
        len({m.field for m in location.members if shared_name(m.field) == kind})
        for location in _looked_at(index, rows)
    ]
    return max(sum(counts) / len(counts), 1.0)


def _commonest_codec(index: Index, rows: _Rows) -> str:
    return Counter(map(_codec, _looked_at(index, rows))).most_common(1)[0][0]


def _looked_at(index: Index, rows: _Rows) -> list[SampleLocation]:
    return [index.location(row) for row in rows[:: max(len(rows) // _LOOKED_AT, 1)].tolist()]


def _codec(location: SampleLocation) -> str:
    named = location.members if location.container in _NAMED_BY_FORMAT else ()
    name = next((m.name for m in named if shared_name(m.field) == location.kind), location.file)
    ending = name.rpartition(".")[2].lower()
    return _CODEC_OF_ENDING.get(ending, ending)
