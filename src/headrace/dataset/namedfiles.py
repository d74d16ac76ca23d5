"""Samples that name media files of the same dataset instead of holding them.

A scan only takes the names down. When all files were scanned, what is known of the media files is
put into the samples that name them, and these files are no samples of their own any more. Names are
only looked up among the dataset's own files, never used as paths.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import CorruptDataError
from headrace.core.numbered import shared_name
from headrace.dataset.location import WHOLE_FILE, Member, SampleLocation
from headrace.dataset.probe import Headers, joint
from headrace.dataset.rowaccess import RowAccess, single_columns
from headrace.dataset.rows import RowBuilder


def file_named(folder: str, name: str) -> str:
    """Return the path that a name in a file of ``folder`` stands for.

    Raises:
        CorruptDataError: it is an address elsewhere.
    """
    if "://" in name:
        raise CorruptDataError(
            f"it names {name}: files elsewhere are not fetched; put them into the dataset"
        )
    return posixpath.normpath(posixpath.join(folder, name))


def files_that_name_others(table: pa.Table) -> set[str]:
    """Return the files of an index's rows of which some name media files."""
    rows = table.column("file").cast(pa.string()).take(pa.array(_naming(table)))
    return set(pc.unique(rows).to_pylist())


def named_sizes(table: pa.Table) -> dict[str, int]:
    """Return the files that samples name and their sizes; 0 of one that was not there [bytes]."""
    naming = table.take(pa.array(_naming(table))).combine_chunks().unify_dictionaries()
    rows = RowAccess(single_columns(naming))
    members = (m for row in range(naming.num_rows) for m in rows.location(row).members)
    return {member.name: member.length for member in members if member.offset == WHOLE_FILE}


def with_named_files(table: pa.Table) -> pa.Table:
    """Return the index's rows with named files settled."""
    table = table.combine_chunks().unify_dictionaries()
    naming = _naming(table)
    if not naming.size:
        return table
    rows = RowAccess(single_columns(table))
    media = _media_rows(table)
    settled, named = RowBuilder(), set[int]()
    for row in naming.tolist():
        location = rows.location(row)
        paths = [member.name for member in location.members if member.offset == WHOLE_FILE]
        found = {path: rows.location(media[path]) for path in paths if path in media}
        named.update(media[path] for path in found)
        settled.append(_settled(location, found))
    order = np.arange(table.num_rows)
    order[naming] = table.num_rows + np.arange(naming.size)
    kept = np.delete(order, sorted(named))
    both = pa.concat_tables([table, settled.finish()])
    return both.take(kept)


def _naming(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the rows that name files."""
    offsets = table.column("member_offsets").combine_chunks()
    parents = pc.list_parent_indices(offsets).to_numpy()
    return np.unique(parents[offsets.flatten().to_numpy() == WHOLE_FILE]).astype(np.int64)


def _media_rows(table: pa.Table) -> dict[str, int]:
    single = pc.equal(table.column("container").cast(pa.string()), "file")
    places = np.flatnonzero(single.to_numpy())
    paths = table.column("file").cast(pa.string()).take(pa.array(places)).to_pylist()
    return dict(zip(paths, places.tolist(), strict=True))


def _settled(location: SampleLocation, found: Mapping[str, SampleLocation]) -> SampleLocation:
    """Return a sample with all that is known of the files that it names."""
    members, headers = [], {}
    for member in location.members:
        length = member.length
        if member.offset == WHOLE_FILE:
            file = found.get(member.name)
            headers[member.field] = _headers(member, file)
            length = file.length if file else 0
        members.append(msgspec.structs.replace(member, length=length))
    known = joint(headers)
    return msgspec.structs.replace(
        location,
        members=tuple(members),
        length=location.length + sum(m.length for m in members if m.offset == WHOLE_FILE),
        width=location.width if location.width is not None else known.width,
        height=location.height if location.height is not None else known.height,
        duration_s=known.duration_s if location.duration_s is None else location.duration_s,
        frames=known.frames if location.frames is None else location.frames,
        keyframes=location.keyframes or known.keyframes,
        cost_s=location.cost_s + known.cost_s,
        broken=location.broken or known.broken,
    )


def _headers(member: Member, file: SampleLocation | None) -> Headers:
    kind = shared_name(member.field)
    if file is None or file.kind != kind:
        return Headers(broken=f"it names {member.name}, which is no {kind} of this dataset")
    return Headers(
        width=file.width,
        height=file.height,
        duration_s=file.duration_s,
        frames=file.frames,
        cost_s=file.cost_s,
        broken=file.broken,
    )
