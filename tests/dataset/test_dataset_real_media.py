from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.dataset.build import build_index
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.storage.local import LocalStorage
from real_media import MEDIA, needs_media


@needs_media
def test_a_folder_of_awkward_media_is_indexed_and_read_without_a_stop(tmp_path: Path) -> None:
    root = shutil.copytree(MEDIA, tmp_path / "media")
    storage = LocalStorage(root)
    index, reader = build_index(storage), SampleReader(storage)
    by_name = {index.location(n).file: index.location(n) for n in range(len(index))}
    for location in by_name.values():
        assert decode_fields(location, reader.read_raw(location))
    sizes = {name: (at.width, at.height, at.frames) for name, at in by_name.items()}
    assert sizes["hopper_orientation_6.jpg"] == (128, 128, None)
    assert sizes["orientation_rectangle.jpg"] == (2, 1, None)
    assert sizes["ultrahdr.jpg"] == (1512, 2688, None)
    assert sizes["av1_video.mkv"] == (640, 360, 125)
    assert sizes["nasa_13013.mp4"] == (480, 270, 390)
    assert by_name["decompression_bomb.gif"].broken
    assert by_name["nasa_13013.mp4.audio.mp3"].duration_s == pytest.approx(13, abs=0.5)
