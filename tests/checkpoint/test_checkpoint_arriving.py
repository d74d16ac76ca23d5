"""A checkpoint whose files are just being moved into its folder is found, and not complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.checkpoint.arriving import arriving_path
from headrace.checkpoint.find import find_checkpoints, open_checkpoint
from headrace.storage.local import LocalStorage


@pytest.mark.parametrize("folder", ["", "step-10"])
def test_what_is_arriving_is_not_complete(tmp_path: Path, folder: str) -> None:
    storage = LocalStorage(tmp_path)
    storage.write(f"{folder}/a.safetensors".lstrip("/"), b"\2\0\0\0\0\0\0\0{}")
    (whole,) = find_checkpoints(storage)
    assert whole.complete
    storage.write(arriving_path(folder), b"")
    (found,) = find_checkpoints(storage)
    assert "moved into place" in found.missing
    assert found.files == whole.files
    assert open_checkpoint(storage, folder) == found
    storage.delete(arriving_path(folder))
    assert find_checkpoints(storage) == [whole]
