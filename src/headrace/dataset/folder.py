"""Scans single media files. Folders of the first level are classes, as in torchvision.

The class of ``cat/kitten/1.jpg`` is ``cat``; classes are numbered in the order of their
sorted names. Files directly below the root have no class.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.dataset.location import Member
from headrace.dataset.media import media_kind
from headrace.dataset.scan import Scan, ScanSource


def scan_media_file(source: ScanSource) -> Scan:
    """Yield the one sample that a media file is; broken if its header cannot be read."""
    file = source.file
    kind = media_kind(file.path) or "other"
    headers = source.probe(kind, 0, file.size)
    member = Member(field=kind, name=kind, offset=0, length=file.size)
    yield source.sample(
        key=file.path,
        kind=kind,
        container="file",
        offset=0,
        length=file.size,
        members=(member,),
        headers=headers,
    )


def with_labels(table: pa.Table, names: tuple[str, ...]) -> tuple[pa.Table, tuple[str, ...]]:
    """Number the class folders of all media files; return the table and the class names.

    Args:
        table: All rows.
        names: What the classes of all other samples are called; they count where there are no
            class folders.
    """
    paths = table.column("file").combine_chunks().cast(pa.string())
    single = pc.equal(table.column("container").cast(pa.string()), "file")
    slash = pc.find_substring(paths, "/")
    folder = pc.if_else(pc.greater(slash, 0), _first_component(paths), None)
    folder = pc.if_else(single.combine_chunks(), folder, None)
    classes = sorted(name for name in pc.unique(folder).to_pylist() if name is not None)
    if not classes and names:
        return table, names
    labels = pc.index_in(folder, value_set=pa.array(classes, pa.string()))
    at = table.schema.get_field_index("label")
    return table.set_column(at, table.schema.field(at), labels), tuple(classes)


def _first_component(paths: pa.Array) -> pa.Array:
    return pc.list_element(pc.split_pattern(paths, "/", max_splits=1), 0)
