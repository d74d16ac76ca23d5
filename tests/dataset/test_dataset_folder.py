from __future__ import annotations

import os
from pathlib import Path

import pytest
from made_up_media import clip, picture, tone, write_all

from headrace.core.errors import NotFoundError
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.storage.local import LocalStorage


def index_of(root: Path) -> Index:
    return build_index(LocalStorage(root))


def test_class_folders_become_labels_in_the_order_of_their_names(tmp_path: Path) -> None:
    files = {f"{name}/{n}.jpg": picture(8, 8) for name in ("dog", "ant", "cat") for n in (1, 2)}
    index = index_of(write_all(tmp_path, files))
    assert index.classes == ("ant", "cat", "dog")
    labels = [(index.location(n).file, index.location(n).label) for n in range(len(index))]
    assert labels == [(path, "acd".index(path[0])) for path in sorted(files)]


def test_a_folder_inside_a_class_belongs_to_the_class(tmp_path: Path) -> None:
    files = {"cat/kitten/1.jpg": picture(8, 8), "dog/1.jpg": picture(8, 8)}
    index = index_of(write_all(tmp_path, files))
    assert [index.location(n).label for n in range(2)] == [0, 1]


def test_files_beside_the_class_folders_have_no_label(tmp_path: Path) -> None:
    index = index_of(write_all(tmp_path, {"1.jpg": picture(8, 8), "cat/1.jpg": picture(8, 8)}))
    assert [index.location(n).label for n in range(2)] == [None, 0]


@pytest.mark.parametrize(
    ("name", "format"), [("x.jpg", "JPEG"), ("x.PNG", "PNG"), ("x.webp", "WEBP"), ("x.gif", "GIF")]
)
def test_a_picture_is_known_by_its_header(tmp_path: Path, name: str, format: str) -> None:
    data = picture(40, 30, format)
    location = index_of(write_all(tmp_path, {name: data})).location(0)
    assert (location.kind, location.container, location.broken) == ("image", "file", None)
    assert (location.width, location.height, location.length) == (40, 30, len(data))
    assert location.cost_s > 0


def test_a_larger_picture_is_estimated_to_cost_more(tmp_path: Path) -> None:
    files = {"a.jpg": picture(20, 20), "b.jpg": picture(200, 200)}
    small, large = index_of(write_all(tmp_path, files)).costs
    assert large > small


def test_a_clip_tells_its_frames_and_keyframes_without_being_decoded(tmp_path: Path) -> None:
    location = index_of(write_all(tmp_path, {"x.mp4": clip(30, gop=10)})).location(0)
    assert (location.width, location.height, location.frames) == (64, 48, 30)
    assert location.duration_s == pytest.approx(3.0, abs=0.11)
    assert location.keyframes == pytest.approx((0.0, 1.0, 2.0))


def test_a_sound_tells_how_long_it_is(tmp_path: Path) -> None:
    location = index_of(write_all(tmp_path, {"x.wav": tone(1.5)})).location(0)
    assert (location.kind, location.duration_s) == ("audio", pytest.approx(1.5))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.jpg", b""),
        ("x.jpg", b"not a picture"),
        ("x.png", picture(8, 8, "PNG")[:20]),
        ("x.mp4", b""),
        ("x.mp4", b"not a clip" * 100),
        ("x.mp4", clip()[:400]),
        ("x.wav", b"RIFF"),
        ("x.mp4", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"),
        ("x.mp4", b"ffconcat version 1.0\nfile /etc/passwd\n"),
        ("x.mp4", tone()),
    ],
)
def test_a_broken_medium_stays_a_row_with_its_reason(
    tmp_path: Path, name: str, data: bytes
) -> None:
    index = index_of(write_all(tmp_path, {"a.jpg": picture(8, 8), name: data}))
    location = index.location(1)
    assert (location.file, location.length) == (name, len(data))
    assert location.broken
    assert index.location(0).broken is None


def test_a_picture_that_claims_to_be_enormous_is_broken_not_loaded(tmp_path: Path) -> None:
    header = bytearray(picture(8, 8, "BMP"))
    header[18:26] = (60_000).to_bytes(4, "little") * 2
    location = index_of(write_all(tmp_path, {"x.bmp": bytes(header)})).location(0)
    assert "bomb" in str(location.broken)


def test_a_link_out_of_the_root_is_a_broken_row_that_says_where_it_leads(tmp_path: Path) -> None:
    write_all(tmp_path, {"outside.jpg": picture(8, 8), "root/a.jpg": picture(8, 8)})
    (tmp_path / "root/b.jpg").symlink_to(tmp_path / "outside.jpg")
    index = index_of(tmp_path / "root")
    assert index.location(0).broken is None
    assert f"links to {tmp_path}/outside.jpg" in str(index.location(1).broken)


def test_hidden_files_are_not_samples_and_unknown_ones_are_counted(tmp_path: Path) -> None:
    others = dict.fromkeys((".cache/b.jpg", ".c.jpg", "README.md", "LIST"), b"")
    index = index_of(write_all(tmp_path, {"a.jpg": picture(8, 8), **others}))
    assert [index.location(n).file for n in range(len(index))] == ["a.jpg"]
    assert index.meta.ignored == {"": 1, "md": 1}


def test_an_empty_dataset_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"looked for images.*no files at all"):
        index_of(tmp_path)
    write_all(tmp_path, {"a.md": b"", "b.csv": b""})
    with pytest.raises(NotFoundError, match=r"1 x \.md"):
        index_of(tmp_path)


def test_a_sample_is_read_whole_and_gets_the_label_of_its_folder(tmp_path: Path) -> None:
    files = {"a/x.jpg": picture(8, 8), "b/x.jpg": picture(9, 9)}
    storage = LocalStorage(write_all(tmp_path, files))
    index, reader = build_index(storage), SampleReader(storage)
    raw = reader.read_raw(index.location(1))
    assert raw == {"image": picture(9, 9)}
    assert decode_fields(index.location(1), raw) == {"image": picture(9, 9), "label": 1}


def test_a_file_whose_name_is_not_utf_8_is_reported_and_does_not_stop_the_build(
    tmp_path: Path,
) -> None:
    write_all(tmp_path, {"a.jpg": picture(4, 4), "bad.jpg": picture(4, 4), "x.bin": b""})
    for name, odd in (("bad.jpg", b"\xe9.jpg"), ("x.bin", b"x.\xff")):
        (tmp_path / name).rename(tmp_path / os.fsdecode(odd))
    index = build_index(LocalStorage(tmp_path))
    assert [index.location(row).key for row in range(len(index))] == ["a.jpg"]
    (problem,) = index.problems
    assert problem.file == r"\udce9.jpg"
    assert "not UTF-8" in problem.reason
    assert Index.from_bytes(index.to_bytes()).problems == index.problems


def test_an_empty_clip_is_broken_and_ffmpeg_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    index = build_index(LocalStorage(write_all(tmp_path, {"a.mp4": b"", "b.flac": b""})))
    assert [index.location(i).broken for i in range(2)] == [
        "cannot be read as video: it is empty",
        "cannot be read as audio: it is empty",
    ]
    assert capfd.readouterr().err == ""


def test_a_folder_that_cannot_be_looked_into_is_a_problem_and_the_rest_is_indexed(
    tmp_path: Path,
) -> None:
    write_all(tmp_path, {"outside/x.jpg": picture(8, 8), "root/a.jpg": picture(8, 8)})
    (tmp_path / "root/linked").symlink_to(tmp_path / "outside")
    (tmp_path / "root/.hidden").symlink_to(tmp_path / "outside")
    index = index_of(tmp_path / "root")
    assert [index.location(n).file for n in range(len(index))] == ["a.jpg"]
    (problem,) = index.problems
    assert problem.file == "linked"
    assert f"its files are left out: {tmp_path}/root/linked links to" in problem.reason
