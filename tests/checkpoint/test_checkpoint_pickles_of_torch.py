"""Metadata of checkpoints is read as Python's own unpickler reads it, where that is safe."""

from __future__ import annotations

import pickle

import pytest
from saved_dcp import save_dcp

from headrace.client.torch.checkpoint.metadata import parse_metadata


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = save_dcp(tmp_path_factory.mktemp("saved"), world=4, threads=2)
    return (folder / ".metadata").read_bytes()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_is_read_is_what_python_reads(saved: bytes, protocol: int) -> None:
    metadata = pickle.loads(saved)
    data = pickle.dumps(metadata, protocol)
    read = parse_metadata(data, ".metadata")
    assert read == metadata
    assert list(read.storage_data) == list(metadata.storage_data)
    for index, was in zip(read.storage_data, metadata.storage_data, strict=True):
        assert vars(index) == vars(was)
        assert list(map(type, vars(index).values())) == list(map(type, vars(was).values()))
    for one, was in zip(read.storage_data.values(), metadata.storage_data.values(), strict=True):
        assert one == was
