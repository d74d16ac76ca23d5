"""Where one sample's bytes are, and what is known about them without reading them."""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.storage.port import FileInfo

Kind = Literal["image", "video", "audio", "text", "other"]
Container = Literal["file", "tar", "parquet", "jsonl", "mds", "megatron", "tfrecord", "arrow"]


WHOLE_FILE = -1
"""Stands for the offset of a member that is another file as a whole."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a sample inside its file, or a part of one: those of a field are joined."""

    field: str
    """Field in the record: canonical (``image``, ``text``, ``label`` …) or the member's own."""

    name: str
    """What the container calls it: a tar member's extension, a Parquet column, a JSON key; in
    MDS, Megatron and TFRecord files, how its value is encoded."""

    offset: int
    """First byte in the file; for Parquet the column chunk's, for compressed Arrow files the
    record batch's, for compressed text the uncompressed stream's. ``WHOLE_FILE``: the value is
    the file of which ``name`` is the path."""

    length: int
    """Bytes from there on, in the same terms."""


class SampleLocation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the index. Plain data: it travels to worker processes."""

    key: str
    """The sample's name inside its dataset, for people (a path, a tar key, ``file#row``)."""

    kind: Kind
    container: Container
    file: str
    """Path relative to the dataset's root."""

    file_size: int
    file_version: str
    offset: int
    """Where the sample starts, in the terms of ``Member.offset``."""

    length: int
    """Encoded bytes of the sample itself, which is what a raw frame carries [bytes]."""

    members: tuple[Member, ...]
    row: int = 0
    """Row inside the Parquet row group or the record batch (``block`` names it)."""

    block: int = -1
    """Parquet row group, record batch, or block of a compressed file; -1 where there is none."""

    label: int | None = None
    """Class number from the folder's name, if any."""

    text: str | None = None
    """Caption from another file, if any."""

    width: int | None = None
    height: int | None = None
    duration_s: float | None = None
    frames: int | None = None
    keyframes: tuple[float, ...] = ()
    """Presentation times of the video's keyframes [s]."""

    cost_s: float = 0.0
    """Estimated CPU to decode [s], from the headers."""

    broken: str | None = None
    """Why the headers could not be read; the sample stays in the index, its id stays its own."""

    def file_info(self) -> FileInfo:
        """Return the sample's file as it was when it was indexed."""
        return FileInfo(self.file, self.file_size, self.file_version)
