"""Replications from a bucket into a folder of it that is not there yet."""

from __future__ import annotations

from pathlib import Path

from roots_for_tests import content, replicating, save_checkpoint, state_of, wanted

from headrace.checkpoint.find import open_checkpoint
from headrace.storage.opening import open_storage
from stores.seaweed import BUCKET, Seaweed
from waiting import eventually


def test_checkpoints_go_from_a_bucket_to_a_new_folder_of_it(
    s3: Seaweed, s3_dir: str, tmp_path: Path
) -> None:
    folder = save_checkpoint(tmp_path, 100, nbytes=3_000_000)
    s3.upload(folder, f"{s3_dir.removeprefix(f's3://{BUCKET}/')}/source/{folder.name}")
    with replicating() as running:
        running.begin("r", wanted(f"{s3_dir}/source", f"{s3_dir}/destination"))
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
    destination = open_storage(f"{s3_dir}/destination")
    assert open_checkpoint(destination, folder.name).complete
    for name, data in content(folder).items():
        assert destination.read(f"{folder.name}/{name}") == data
    assert not [info for info in destination.list() if "staging" in info.path]
