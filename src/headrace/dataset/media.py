"""What a file name says about its content: kinds, record fields, containers.

Kinds come from names, never from the bytes, so that every host sees the same index.
"""

from __future__ import annotations

import re
from typing import get_args

from headrace.core.numbered import numbered, shared_name
from headrace.dataset.location import Container, Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
"""All kinds, in the order of their codes."""

_EXTENSIONS: dict[Kind, frozenset[str]] = {
    "image": frozenset(
        ("jpg", "jpeg", "png", "apng", "webp", "gif", "bmp", "tif", "tiff", "ppm", "pgm", "avif")
    ),
    "video": frozenset(("mp4", "m4v", "mov", "mkv", "webm", "avi", "mpg", "mpeg", "flv", "ogv")),
    "audio": frozenset(("wav", "mp3", "flac", "ogg", "oga", "opus", "m4a", "aac", "aif", "aiff")),
    "text": frozenset(("txt", "caption", "text")),
}
_KIND_OF = {extension: kind for kind, names in _EXTENSIONS.items() for extension in names}

_HEAVIEST_FIRST: tuple[Kind, ...] = ("video", "image", "audio", "text")

_FIELD_OF = {**_KIND_OF, "cls": "label", "json": "json"}

LABEL_NAMES = ("label", "cls", "class")
TEXT_NAMES = ("text", "caption")
MEDIA_NAMES: dict[str, Kind] = {
    **dict.fromkeys(("video", "mp4"), "video"),
    **dict.fromkeys(("audio", "sound"), "audio"),
    **dict.fromkeys(("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp"), "image"),
}
"""What columns and features are called whose values are these."""

_CONTAINERS: tuple[tuple[str, Container], ...] = (
    (".tar", "tar"),
    (".parquet", "parquet"),
    (".jsonl", "jsonl"),
    (".ndjson", "jsonl"),
    (".json", "jsonl"),
    (".jsonl.gz", "jsonl"),
    (".jsonl.zst", "jsonl"),
    (".json.gz", "jsonl"),
    (".json.zst", "jsonl"),
    (".bin", "megatron"),
    *((ending, "arrow") for ending in (".arrow", ".arrows", ".feather", ".ipc")),
    *((f".tfrecord{ending}", "tfrecord") for ending in ("", "s", ".gz", "s.gz")),
    *((f".mds{ending}", "mds") for ending in ("", ".zstd", ".gz", ".br", ".bz2", ".snappy")),
)

_PART_OF_RECORDS = re.compile(r"(^|/)([^/.]+|[^/]+\.tfrecords?)-\d{5}-of-\d{5}(\.gz)?$")
"""How TensorFlow's tools name the parts of a dataset."""

LOOKED_FOR = (
    "images (.jpg .png .webp …), videos (.mp4 .webm .mkv …), audio (.wav .mp3 .flac …), "
    "WebDataset shards (.tar), Parquet and Arrow files (.parquet, .arrow, .feather), JSON lines "
    "(.jsonl, .jsonl.gz, .jsonl.zst), JSON arrays of records (.json), MosaicML Streaming shards "
    "(.mds, .mds.zstd …), Megatron's tokens (.bin with .idx), TFRecord files (.tfrecord, "
    ".tfrecord.gz)"
)
"""What a dataset may be made of, for people."""


def extension(path: str) -> str:
    """Return what follows the last dot of the last component, in lower case, or ''."""
    name = path.rpartition("/")[2]
    stem, dot, last = name.rpartition(".")
    return last.lower() if dot and stem else ""


def media_kind(path: str) -> Kind | None:
    """Return the kind of a single image, video or audio file; None for anything else."""
    kind = _KIND_OF.get(extension(path))
    return kind if kind != "text" else None


def container_of(path: str) -> Container | None:
    """Return how samples are held in a file, or None if it holds none that are known."""
    lowered = path.lower()
    for ending, container in _CONTAINERS:
        if lowered.endswith(ending):
            return container
    if _PART_OF_RECORDS.search(lowered):
        return "tfrecord"
    return "file" if media_kind(path) else None


def member_field(member_extension: str) -> str:
    """Return the record field for a tar member's extension; an unknown one keeps its name.

    A number before it tells which of several values the member is: ``0.jpg`` is ``image.0``.
    """
    number, _, last = member_extension.partition(".")
    if number.isdecimal() and number.isascii() and last in _FIELD_OF:
        return numbered(_FIELD_OF[last], int(number))
    return _FIELD_OF.get(member_extension, member_extension)


def leading_kind(fields: set[str]) -> Kind:
    """Return what a sample with these fields is: its heaviest medium decides."""
    names = {shared_name(field) for field in fields}
    return next((kind for kind in _HEAVIEST_FIRST if kind in names), "other")
