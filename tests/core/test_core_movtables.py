"""Tables of MP4 files that count what the file cannot hold are found before FFmpeg builds them."""

from __future__ import annotations

import io
import struct

import pytest

from headrace.core.errors import CorruptSampleError
from headrace.core.movtables import require_credible_tables
from headrace.storage.rangefile import BUFFER_BYTES, RangeFile


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def table(kind: bytes, *numbers: int) -> bytes:
    return box(kind, struct.pack(f">{1 + len(numbers)}I", 0, *numbers))


def file(*tables: bytes, edits: bytes = b"", room: int = 2000) -> bytes:
    """Return a file with one track, its header behind ``room`` bytes of media in a large box."""
    media = struct.pack(">I4sQ", 1, b"mdat", 16 + room) + bytes(room)
    track = box(b"mdia", box(b"minf", box(b"stbl", b"".join(tables))))
    header = box(b"moov", box(b"mvhd", bytes(4)) + box(b"trak", box(b"edts", edits) + track))
    return box(b"ftyp", b"isom") + media + header


def fragments(*counts: int, media: int = 100) -> bytes:
    """Return a file of fragments, each with a run that counts so many samples."""
    runs = [box(b"moof", box(b"traf", box(b"trun", struct.pack(">II", 0, n)))) for n in counts]
    header = box(b"moov", box(b"mvex", table(b"trex", 1, 1)))
    return header + b"".join(run + box(b"mdat", bytes(media)) for run in runs)


SIZES, TIMES = table(b"stsz", 1, 500), table(b"stts", 2, 300, 1, 200, 2)
EDITS = table(b"elst", 40_000)


@pytest.mark.parametrize(
    "data",
    [
        file(SIZES, TIMES),
        file(SIZES, edits=table(b"elst", 3)),
        fragments(100, 100),
        b"",
        b"RIFF",
        bytes(100),
        file(SIZES)[:-30],
        box(b"moov", table(b"stsz")[:10]),
        box(b"moov", box(b"trak", box(b"moov", b"") * 3)),
        b"".join(struct.pack(">I4s", 8, b"moov") for _ in range(3)),
    ],
)
def test_what_can_be_held_and_what_is_no_such_file_is_left_at_its_start(data: bytes) -> None:
    stream = io.BytesIO(data)
    stream.seek(len(data))
    require_credible_tables(stream)
    assert stream.tell() == 0


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (file(table(b"stsz", 1, 40_000_000), TIMES), "counts 40000000 samples"),
        (file(SIZES, table(b"stts", 2, 7, 1, 1_000_000_000, 1)), "counts 1000000007 samples"),
        (file(SIZES, table(b"ctts", 1, 1_000_000_000, 1)), "counts 1000000000 samples"),
        (file(SIZES, edits=EDITS), "40000 edits of 500 samples"),
        (box(b"moov", box(b"cmov", b"")), "compressed"),
        (fragments(100_000_000), "count 100000000 samples"),
        (fragments(1, 100_000_000), "count 100000001 samples"),
        (fragments(*[150] * 9), "count 1350 samples"),
    ],
)
def test_what_cannot_be_held_is_corrupt_and_says_what_was_counted(data: bytes, says: str) -> None:
    with pytest.raises(CorruptSampleError, match=says):
        require_credible_tables(io.BytesIO(data))


@pytest.mark.parametrize(
    "data",
    [
        box(b"free", b"") * 101,
        box(b"moov", box(b"free", b"") * 101),
        box(b"moov", table(b"trex", 1, 1)) + box(b"moof", box(b"traf", b"")) * 60,
    ],
)
def test_a_file_of_more_boxes_than_any_has_is_not_gone_through(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.core.movtables.MOST_BOXES", 100)
    with pytest.raises(CorruptSampleError, match="more than 100 boxes"):
        require_credible_tables(io.BytesIO(data))


def test_little_is_read_of_fragments_and_the_stream_can_be_read_from_its_start() -> None:
    data = fragments(*[100] * 20, media=100_000)
    source = Counted(data)
    stream = RangeFile(source, "x.mp4", 0, len(data))
    require_credible_tables(stream)
    assert source.nbytes < 20 * 5000 + BUFFER_BYTES
    assert stream.read() == data


class Counted:
    def __init__(self, data: bytes) -> None:
        self.data, self.nbytes = data, 0

    def read(self, path: str, offset: int, length: int) -> bytes:
        self.nbytes += length
        return self.data[offset : offset + length]


def test_boxes_nested_without_end_are_not_followed() -> None:
    nested = b""
    for _ in range(3000):
        nested = box(b"moov", nested)
    require_credible_tables(io.BytesIO(nested))
