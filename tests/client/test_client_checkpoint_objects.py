"""Checkpoints and tensors in a bucket, as in a file system."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save as encoded
from training_state import blank_state, random_state, same

from headrace import safetensors
from headrace.checkpoint.manifest import MANIFEST
from headrace.checkpoint.pointed import followed
from headrace.storage.opening import open_storage
from headrace.torch import CheckpointReader, CheckpointWriter
from stores.seaweed import Seaweed

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


@pytest.fixture
def runs(s3: Seaweed, s3_dir: str) -> str:
    """URL of a folder in which nothing lies, in one that is there."""
    bucket, _, folder = s3_dir.rpartition("/")
    with closing(open_storage(bucket)) as storage:
        storage.write(f"{folder}/notes.txt", b"")
    return f"{s3_dir}/runs"


def test_states_are_saved_to_a_bucket_and_come_back(runs: str) -> None:
    for step in (7, 8):
        writer = CheckpointWriter(f"{runs}/step-{step}", pointer="latest", streams=2)
        dcp.save(random_state(), storage_writer=writer, no_dist=True)
    assert followed(f"{runs}/latest") == f"{runs}/step-8"
    loaded = blank_state()
    dcp.load(loaded, storage_reader=CheckpointReader(f"{runs}/step-8"), no_dist=True)
    assert same(loaded, random_state())
    with closing(open_storage(f"{runs}/step-8")) as storage:
        manifest, metadata, *shards = [info.path for info in storage.list()]
    assert (manifest, metadata) == (MANIFEST, ".metadata")
    assert [name[:5] for name in shards] == ["__0_0", "__0_1"]


def test_tensors_are_read_from_a_bucket(runs: str) -> None:
    tensors = {"a": torch.arange(3000.0), "b": torch.ones(7, 5)}
    with closing(open_storage(runs.removesuffix("/runs"))) as storage:
        storage.write("model.safetensors", encoded(tensors))
    loaded = safetensors.load_file(f"{runs.removesuffix('/runs')}/model.safetensors")
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
