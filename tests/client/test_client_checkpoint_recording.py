"""What loads and saves of checkpoints record: their time, their bytes, and every request."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch.distributed.checkpoint as dcp
from torch.utils.data import DataLoader, Dataset
from training_state import blank_state, random_state

import headrace.safetensors
from headrace.agent.local import LocalAgent
from headrace.client.torch.checkpoint.reader import CheckpointReader
from headrace.client.torch.checkpoint.writer import CheckpointWriter
from headrace.trace import recording
from headrace.trace.opening import open_trace

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


@pytest.fixture(autouse=True)
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    process = recording._Process()
    monkeypatch.setattr(recording, "_process", process)
    monkeypatch.setenv("RANK", "5")
    yield
    if process._recording is not None:
        process._recording._recorder.close()


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    rows = (row for batch in open_trace([folder]).batches() for row in batch.to_pylist())
    found = [row for row in rows if row["kind"] == kind]
    assert {row["rank"] for row in found} <= {5}
    return found


def test_a_save_is_recorded_with_all_that_was_written_of_each_file(tmp_path: Path) -> None:
    folder, trace = tmp_path / "step-7", tmp_path / "trace"
    writer = CheckpointWriter(folder, streams=2, trace=trace)
    dcp.save(random_state(), storage_writer=writer, no_dist=True)
    writer.close()
    (save,) = events(trace, "checkpoint_save")
    shards = {path.name: path.stat().st_size for path in folder.glob("*.distcp")}
    assert (save["file"], save["bytes"]) == (str(folder), sum(shards.values()))
    assert dict(save["counts"])["files"] == 2
    written = dict.fromkeys(shards, 0)
    for request in events(trace, "request"):
        assert request["is_write"]
        name = Path(request["file"]).name
        assert request["offset"] == written[name]
        written[name] += request["bytes"]
    assert written == shards
    assert [call["name"] for call in events(trace, "call")] == ["publish"]
    (barrier,) = events(trace, "barrier")
    assert barrier["begin_ns"] >= save["begin_ns"] + save["duration_ns"]


def test_a_load_is_recorded_with_each_of_its_requests(tmp_path: Path) -> None:
    folder, trace = tmp_path / "step-7", tmp_path / "trace"
    dcp.save(random_state(), checkpoint_id=folder, no_dist=True)
    reader = CheckpointReader(folder, trace=trace)
    dcp.load(blank_state(), storage_reader=reader, no_dist=True)
    reader.close()
    fetch = reader.statistics().fetch
    (load,) = events(trace, "checkpoint_read")
    assert (load["file"], load["bytes"]) == (str(folder), fetch.wanted_bytes)
    assert load["phase"] == "initialisation"
    requests = events(trace, "request")
    assert len(requests) == fetch.requests == dict(load["counts"])["requests"]
    assert sum(request["bytes"] for request in requests) == fetch.read_bytes
    assert all(Path(request["file"]).is_file() for request in requests)
    assert [call["name"] for call in events(trace, "call")] == ["read metadata"]


def test_who_served_a_request_is_recorded_where_it_was_an_agent(tmp_path: Path) -> None:
    folder, trace = tmp_path / "step-7", tmp_path / "trace"
    dcp.save(random_state(), checkpoint_id=folder, no_dist=True)
    with LocalAgent([tmp_path], options=("--workers", "0", "--cpu-threshold", "1")) as agent:
        reader = CheckpointReader(folder, agents=agent.address, token=agent.token, trace=trace)
        dcp.load(blank_state(), storage_reader=reader, no_dist=True)
        reader.close()
        served_by = {f"http://{one['replica']}" for one in events(trace, "request")}
        assert served_by == {agent.address}


def test_tensors_that_are_read_of_safetensors_files_are_recorded(tmp_path: Path) -> None:
    file, trace = tmp_path / "model.safetensors", tmp_path / "trace"
    safetensors.numpy.save_file({"a": np.arange(100), "b": np.ones((4, 4))}, file)
    headrace.safetensors.load_file(file, framework="np", trace=trace)
    with headrace.safetensors.open(file, "np", trace=trace) as tensors:
        assert tensors.get_tensor("a").size == 100
        assert tensors.get_slice("b")[1:2].shape == (1, 4)
    whole, tensor, rows = events(trace, "checkpoint_read")
    assert {one["file"] for one in (whole, tensor, rows)} == {str(file)}
    assert (whole["bytes"], tensor["bytes"], rows["bytes"]) == (file.stat().st_size, 800, 32)
    assert {one["file"] for one in events(trace, "request")} == {str(file)}


def test_a_reader_and_a_writer_that_record_can_be_sent_to_another_process(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path / "it", trace=tmp_path / "trace")
    dcp.save(random_state(), storage_writer=writer, no_dist=True)
    again = pickle.loads(pickle.dumps(writer))
    dcp.save(random_state(), storage_writer=again, no_dist=True)
    for one in (writer, again):
        one.close()
    assert len(events(tmp_path / "trace", "checkpoint_save")) == 2


class _Tensors(Dataset[int]):
    """Reads its samples in the workers of a DataLoader."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> int:
        with headrace.safetensors.open(self._file, "np") as tensors:
            return int(tensors.get_tensor("a")[number])


def test_workers_of_a_dataloader_record_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_TRACE", str(tmp_path / "traces"))
    file = tmp_path / "model.safetensors"
    safetensors.numpy.save_file({"a": np.arange(100)}, file)
    headrace.safetensors.load_file(file, framework="np")
    loader = DataLoader(_Tensors(file), num_workers=1, multiprocessing_context="fork")
    assert [int(batch) for batch in loader] == [0, 1]
    own = recording._process._recording
    assert own is not None
    own.flush()
    reads = events(tmp_path / "traces", "checkpoint_read")
    assert len(reads) == 3
    assert len({read["pid"] for read in reads}) == 2
