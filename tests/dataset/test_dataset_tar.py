from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_media import clip, picture, shard, write_all

from headrace.core.errors import CorruptSampleError
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.storage.local import LocalStorage


def opened(
    root: Path, members: list[tuple[str, bytes]], **options: int
) -> tuple[Index, SampleReader]:
    storage = LocalStorage(write_all(root, {"s.tar": shard(members, **options)}))
    return build_index(storage), SampleReader(storage)


def test_members_with_the_same_key_are_one_sample(tmp_path: Path) -> None:
    members = [
        ("0001.jpg", picture(10, 8)),
        ("0001.cls", b"7"),
        ("0001.txt", "größe".encode()),
        ("0001.json", b'{"a": 1}'),
        ("0001.seg.png", b"mask"),
        ("0002.caption", b"no picture"),
    ]
    index, reader = opened(tmp_path, members)
    first, second = index.location(0), index.location(1)
    assert (first.key, first.kind, first.width, first.height) == ("s.tar#0001", "image", 10, 8)
    assert (second.key, second.kind) == ("s.tar#0002", "text")
    assert decode_fields(first, reader.read_raw(first)) == {
        "image": picture(10, 8),
        "label": 7,
        "text": "größe",
        "json": '{"a": 1}',
        "seg.png": b"mask",
    }
    assert decode_fields(second, reader.read_raw(second)) == {"text": "no picture"}


def test_names_that_climb_or_are_absolute_are_only_keys(tmp_path: Path) -> None:
    members = [("../../etc/x.jpg", picture(8, 8)), ("/abs/y.jpg", picture(9, 9))]
    index, reader = opened(tmp_path, members)
    assert [index.location(n).file for n in range(2)] == ["s.tar", "s.tar"]
    assert reader.read_raw(index.location(0)) == {"image": picture(8, 8)}
    assert [path.name for path in tmp_path.iterdir()] == ["s.tar"]


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_dialect_of_tar_is_read(tmp_path: Path, format: int) -> None:
    long = "folder/" * 12 + "x.jpg" if format == tarfile.USTAR_FORMAT else "ä" * 150 + ".jpg"
    index, reader = opened(tmp_path, [(long, picture(8, 8))], format=format)
    assert reader.read_raw(index.location(0)) == {"image": picture(8, 8)}


def test_a_video_beside_a_picture_decides_the_kind(tmp_path: Path) -> None:
    index, _ = opened(tmp_path, [("a.jpg", picture(8, 8)), ("a.mp4", clip(20))])
    assert (index.location(0).kind, index.location(0).frames) == ("video", 20)


def test_two_pictures_in_one_sample_keep_both(tmp_path: Path) -> None:
    index, reader = opened(tmp_path, [("a.jpg", picture(8, 8)), ("a.png", picture(8, 8, "PNG"))])
    assert set(reader.read_raw(index.location(0))) == {"image", "png"}


def test_a_repeated_member_makes_the_sample_broken(tmp_path: Path) -> None:
    index, _ = opened(tmp_path, [("a.jpg", picture(8, 8)), ("a.jpg", picture(9, 9))])
    assert "two members" in str(index.location(0).broken)


def test_of_two_members_for_one_field_the_first_is_read_and_the_sample_is_doubtful(
    tmp_path: Path,
) -> None:
    data = picture(4, 4)
    index, reader = opened(tmp_path, [("a.jpg", data), ("a.image", b"other")])
    assert reader.read_raw(index.location(0)) == {"image": data}
    assert "both its image" in str(index.location(0).broken)


@pytest.mark.parametrize("label", [b"cat", b"9223372036854775808", b"9" * 5000])
def test_a_label_that_is_no_number_of_64_bits_is_a_corrupt_sample(
    tmp_path: Path, label: bytes
) -> None:
    index, reader = opened(tmp_path, [("a.cls", label)])
    with pytest.raises(CorruptSampleError, match="label"):
        decode_fields(index.location(0), reader.read_raw(index.location(0)))


def test_a_text_in_another_encoding_is_left_to_the_pipeline(tmp_path: Path) -> None:
    index, reader = opened(tmp_path, [("a.txt", "größe".encode("latin-1"))])
    raw = reader.read_raw(index.location(0))
    assert decode_fields(index.location(0), raw) == {"text": "größe".encode("latin-1")}


WHOLE = shard(
    [
        (f"{n}.{kind}", picture(8, 8) if kind == "jpg" else b"1")
        for n in range(4)
        for kind in ("jpg", "cls")
    ]
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, len(WHOLE) - 1))
def test_of_a_truncated_shard_the_complete_samples_are_kept(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    files = {"s.tar": WHOLE[:length], "a.jpg": picture(8, 8)}
    storage = LocalStorage(write_all(tmp_path_factory.mktemp("cut"), files))
    index, reader = build_index(storage), SampleReader(storage)
    kept = [index.location(n) for n in range(1, len(index))]
    for location in kept:
        assert set(reader.read_raw(location)) == {"image", "label"}
    if len(kept) < 4:
        assert index.problems[0].file == "s.tar"


def test_archives_joined_end_to_end_are_reported(tmp_path: Path) -> None:
    second = shard([(f"{n}.bin", bytes(500_000)) for n in range(3)])
    write_all(tmp_path, {"s.tar": WHOLE + second})
    index = build_index(LocalStorage(tmp_path))
    assert "joined by cat" in index.problems[0].reason


def test_a_file_that_is_no_tar_is_a_problem_and_not_a_stop(tmp_path: Path) -> None:
    write_all(tmp_path, {"a.tar": b"nonsense" * 1000, "b.jpg": picture(8, 8)})
    index = build_index(LocalStorage(tmp_path))
    assert len(index) == 1
    assert index.problems[0].file == "a.tar"


def long_name(size: int) -> bytes:
    """Return the header that says that the next member's name has so many bytes."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, size
    return entry.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (long_name(1 << 33) + bytes(512), "header of 8589934592 bytes"),
        ((long_name(6) + b"a.jpg".ljust(512, b"\0")) * 1000, "recursion"),
    ],
)
def test_headers_that_never_end_are_a_problem_and_not_a_stop(
    tmp_path: Path, headers: bytes, reason: str
) -> None:
    files = {"x.tar": headers + WHOLE, "b.jpg": picture(8, 8)}
    index = build_index(LocalStorage(write_all(tmp_path, files)))
    assert [problem.file for problem in index.problems] == ["x.tar"]
    assert reason in index.problems[0].reason


def test_neighbouring_members_are_fetched_by_one_read(tmp_path: Path) -> None:
    index, _ = opened(tmp_path, [("a.jpg", picture(8, 8)), ("a.cls", b"1"), ("a.txt", b"x")])
    storage = CountingStorage(tmp_path)
    raw = SampleReader(storage).read_raw(index.location(0))
    assert raw == {"image": picture(8, 8), "label": b"1", "text": b"x"}
    assert storage.ranges == 1


class CountingStorage(LocalStorage):
    ranges = 0

    def read_described(self, path, ranges):  # type: ignore[no-untyped-def]
        self.ranges += len(ranges)
        return super().read_described(path, ranges)


@pytest.mark.parametrize("locale", ["utf-8", "iso8859-1"])
def test_names_in_any_encoding_are_keys_and_the_same_under_any_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    data = picture(4, 4)
    content = shard([("gr\udcfc\udcdf.jpg", data), ("größe.jpg", data)], tarfile.USTAR_FORMAT)
    storage = LocalStorage(write_all(tmp_path, {"s.tar": content}))
    monkeypatch.setattr(tarfile, "ENCODING", locale)
    index = build_index(storage)
    assert [index.location(row).key for row in range(2)] == [r"s.tar#gr\xfc\xdf", "s.tar#größe"]
    assert Index.from_bytes(index.to_bytes()).digest == index.digest
