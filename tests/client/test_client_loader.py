"""What a training loop can rely on, in one process without agents."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from epochs import digest, digests, epoch, loading

import headrace
from headrace import Loader, Pipeline, ops
from headrace.client import maker
from headrace.client.config import LoaderConfig
from headrace.client.prefetch import Prefetcher
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import (
    CallerError,
    ConfigError,
    CorruptSampleError,
    NotFoundError,
    StorageError,
)
from headrace.core.run import RUN_VARIABLES
from headrace.storage.local import LocalStorage


def test_a_row_is_what_the_pipeline_makes_of_its_sample(dataset: Path, pipeline: Pipeline) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        job = loader.job
        preparer = job.preparer(0)
        assert preparer is not None
        for batch in loader:
            for name in ("image", "video"):
                if name not in batch:
                    continue
                for row, array in zip(batch.rows(name), batch[name], strict=True):
                    sample = int(batch["sample"][row])
                    key = SampleKey(3, batch.epoch, sample)
                    location = job.place(sample).location
                    whole = preparer.prepare(location, key, stop=job.program.sample_ops)
                    assert np.array_equal(whole.record[name], array)
                    assert batch["label"][row] == location.label


def test_a_loop_is_one_epoch_and_the_next_loop_the_next(dataset: Path, pipeline: Pipeline) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        first, second = list(loader), list(loader)
    assert len(first) == len(second) == len(loader) == 4
    assert [batch.epoch for batch in first + second] == [0] * 4 + [1] * 4
    assert [batch.step for batch in first + second] == list(range(8))
    assert digests(first) != digests(second)


def test_the_number_of_workers_changes_nothing(dataset: Path, pipeline: Pipeline) -> None:
    one = epoch(dataset, pipeline=pipeline, workers=1)
    assert epoch(dataset, pipeline=pipeline, workers=4, prefetch_steps=1) == one


@pytest.mark.parametrize("taken", [1, 3, 4, 6])
def test_a_state_taken_after_a_batch_resumes_at_the_next(
    dataset: Path, pipeline: Pipeline, taken: int
) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        whole = digests(batch for _ in range(2) for batch in loader)
    with loading(dataset, pipeline=pipeline) as loader:
        state = _state_after(loader, taken)
    assert len(pickle.dumps(state)) < 500
    with loading(dataset, pipeline=pipeline, workers=1) as loader:
        loader.load_state_dict(state)
        rest = digests(loader)
        if taken < 4:
            rest += digests(loader)
    assert rest == whole[taken:]


def _state_after(loader: Loader, batches: int) -> dict[str, Any]:
    seen = 0
    while True:
        for _ in loader:
            seen += 1
            if seen == batches:
                return loader.state_dict()


def test_an_epoch_left_early_is_not_resumed_by_the_next_loop(dataset: Path) -> None:
    with loading(dataset) as loader:
        next(iter(loader))
        assert next(iter(loader)).epoch == 1
        loader.set_epoch(0)
        assert next(iter(loader)).step == 0


def test_scripts_that_set_each_epoch_resume_inside_one(dataset: Path) -> None:
    with loading(dataset) as loader:
        state = _state_after(loader, 6)
    with loading(dataset) as loader:
        loader.load_state_dict(state)
        steps = []
        for number in range(loader.epoch, 3):
            loader.set_epoch(number)
            steps += [batch.step for batch in loader]
        assert steps == list(range(6, 12))
        loader.set_epoch(1)
        assert next(iter(loader)).step == 4


@pytest.mark.parametrize("epoch", [-1, 1.5, "2", None, 1 << 62])
def test_an_epoch_that_there_cannot_be_is_refused_and_changes_nothing(
    dataset: Path, epoch: Any
) -> None:
    with loading(dataset) as loader:
        with pytest.raises(ConfigError, match="must be a whole number in"):
            loader.set_epoch(epoch)
        assert loader.epoch == 0
        loader.set_epoch(np.int64(2))
        assert next(iter(loader)).epoch == 2


def test_a_state_of_another_job_is_refused(dataset: Path) -> None:
    with loading(dataset) as loader:
        state = loader.state_dict()
    with loading(dataset, seed=4) as loader, pytest.raises(ConfigError, match="seed is 3 there"):
        loader.load_state_dict(state)


def test_another_run_of_a_job_has_a_name_of_its_own_and_the_same_batches(dataset: Path) -> None:
    with loading(dataset, run="one") as one, loading(dataset, run="two") as two:
        assert len({one.job.spec.id, two.job.spec.id}) == 2
        assert digests(one) == digests(two)
        two.load_state_dict(one.state_dict())


@pytest.mark.parametrize(
    ("environment", "given", "run"),
    [
        ({}, None, ""),
        ({"SLURM_JOB_ID": "17"}, None, "17"),
        ({"SLURM_JOB_ID": "17", "TORCHELASTIC_RUN_ID": "abc"}, None, "abc"),
        ({"SLURM_JOB_ID": "17", "TORCHELASTIC_RUN_ID": "none"}, None, "17"),
        ({"HEADRACE_RUN": "mine", "TORCHELASTIC_RUN_ID": "abc"}, None, "mine"),
        ({"HEADRACE_RUN": "mine"}, "given", "given"),
        ({"HEADRACE_RUN": "mine"}, "", ""),
    ],
)
def test_a_run_is_named_by_its_launcher_unless_the_script_names_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], given: str | None, run: str
) -> None:
    for name in RUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert LoaderConfig(batch_size=1, run=given).run_name() == run


@pytest.mark.parametrize("world", [2, 4])
def test_any_world_size_sees_the_same_global_batches(
    dataset: Path, pipeline: Pipeline, world: int
) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        whole = [batch["sample"].tolist() for batch in loader]
    parts: list[list[int]] = [[] for _ in whole]
    for rank in range(world):
        with loading(dataset, pipeline=pipeline, rank=rank, world=world) as loader:
            for number, batch in enumerate(loader):
                parts[number] += batch["sample"].tolist()
    assert parts == whole


def test_resuming_on_another_world_size_loses_and_repeats_nothing(
    dataset: Path, pipeline: Pipeline
) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        whole = [batch["sample"].tolist() for batch in loader]
    with loading(dataset, pipeline=pipeline, rank=1, world=2) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
    with loading(dataset, pipeline=pipeline) as loader:
        loader.load_state_dict(state)
        assert [batch["sample"].tolist() for batch in loader] == whole[1:]


def test_a_corrupt_sample_is_replaced_by_the_same_one_everywhere_and_listed(
    dataset: Path, pipeline: Pipeline
) -> None:
    with loading(dataset, pipeline=pipeline, batch_size=4) as loader:
        whole = [batch["sample"].tolist() for batch in loader]
        summary = loader.summary()
    (replaced,) = summary.replaced
    assert replaced.key.endswith("p07.jpg")
    assert "decode_image" in replaced.reason
    assert replaced.sample != replaced.taken
    assert replaced.taken in whole[replaced.step]
    assert summary.counts.substituted == 1
    assert "p07.jpg" in str(summary)
    for rank in range(2):
        with loading(dataset, pipeline=pipeline, batch_size=4, rank=rank, world=2) as loader:
            for batch in loader:
                assert batch["sample"].tolist() == whole[batch.step][2 * rank : 2 * rank + 2]


def test_a_corrupt_sample_can_be_dropped_from_its_batch(dataset: Path, pipeline: Pipeline) -> None:
    with loading(dataset, pipeline=pipeline, batch_size=8, on_corrupt="drop-from-batch") as loader:
        batches = list(loader)
        assert loader.summary().counts.dropped == 1
    assert sorted(batch.size for batch in batches) == [7, 8, 8]
    (short,) = [batch for batch in batches if batch.size == 7]
    assert short.replaced[0].taken is None
    for name in short:
        assert len(short[name]) == len(short.rows(name))
        assert short.rows(name).max() < 7


def test_a_corrupt_sample_can_end_the_loop_with_its_name(dataset: Path, pipeline: Pipeline) -> None:
    with (
        loading(dataset, pipeline=pipeline, batch_size=8, on_corrupt="raise") as loader,
        pytest.raises(CorruptSampleError, match=r"p07\.jpg.*on_corrupt"),
    ):
        list(loader)


@pytest.mark.parametrize("world", [1, 2])
def test_a_corrupt_sample_that_is_the_only_one_of_its_kind_is_replaced_by_another_kind(
    tmp_path: Path, dataset: Path, pipeline: Pipeline, world: int
) -> None:
    for number in range(1, 6, 2):
        name = f"p{number:02d}.jpg"
        (tmp_path / name).write_bytes((dataset / "cat" / name).read_bytes())
    (tmp_path / "v.mp4").write_bytes(b"no clip")
    taken = []
    for rank in range(world):
        options = {"batch_size": 4, "rank": rank, "world": world}
        with loading(tmp_path, pipeline=pipeline, **options) as loader:
            (batch,) = loader
            assert batch["image"].shape == (4 // world, 3, 24, 24)
            assert "video" not in batch
            taken += batch["sample"].tolist()
    assert set(taken) == {0, 1, 2}
    assert len(taken) == 4


def test_a_dataset_in_which_nothing_can_be_decoded_ends_the_loop(
    tmp_path: Path, pipeline: Pipeline
) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(b"\xff\xd8\xff no picture")
    with (
        loading(tmp_path, pipeline=pipeline, batch_size=2) as loader,
        pytest.raises(CorruptSampleError, match="none of its replacements"),
    ):
        list(loader)


def test_a_file_that_changed_or_vanished_after_indexing_is_never_read_and_is_listed(
    tmp_path: Path, dataset: Path, pipeline: Pipeline
) -> None:
    source = dataset / "cat" / "p01.jpg"
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(source.read_bytes())
    with loading(tmp_path, pipeline=pipeline, batch_size=2) as loader:
        (tmp_path / "2.jpg").write_bytes(source.read_bytes() + b"more")
        (tmp_path / "3.jpg").unlink()
        taken = [int(sample) for batch in loader for sample in batch["sample"]]
        assert set(taken) <= {0, 1}
        found = {item.key: item.reason for item in loader.summary().replaced}
    assert "headrace index" in found["2.jpg"]
    assert "is gone" in found["3.jpg"]
    with (
        loading(tmp_path, pipeline=pipeline, batch_size=2, on_corrupt="raise") as loader,
        pytest.raises(CorruptSampleError, match="headrace index"),
    ):
        list(loader)


@pytest.fixture
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many of the next reads fail, in its one element; with which error, as parameter."""
    left, read = [0], LocalStorage.read_described
    error = getattr(request, "param", StorageError)

    def read_or_fail(*args: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error("the mount is gone")
        return read(*args)

    monkeypatch.setattr(maker, "RETRY_DELAY_S", 1e-3)
    monkeypatch.setattr(LocalStorage, "read_described", read_or_fail)
    return left


@pytest.mark.parametrize("failing", [StorageError, NotFoundError], indirect=True)
def test_storage_that_fails_for_a_while_makes_batches_late_and_not_different(
    dataset: Path, pipeline: Pipeline, failing: list[int]
) -> None:
    """Also where it does not find for a while what it says is there."""
    expected = epoch(dataset, pipeline=pipeline)
    with loading(dataset, pipeline=pipeline) as loader:
        failing[0] = 6
        assert digests(loader) == expected


def test_storage_that_fails_for_good_ends_the_loop_and_replaces_nothing(
    dataset: Path, pipeline: Pipeline, failing: list[int]
) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        failing[0] = 1 << 30
        with pytest.raises(StorageError, match="the mount is gone"):
            next(iter(loader))
        failing[0] = 0
        assert next(iter(loader)).step == 0


def test_storage_that_was_patient_by_itself_is_not_asked_again_and_said_to_fail(
    dataset: Path,
    pipeline: Pipeline,
    failing: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with loading(dataset, pipeline=pipeline, batch_size=1, workers=1, prefetch_steps=1) as loader:
        failing[0] = maker.TRIES - 1
        assert next(iter(loader)).step == 0, "the last attempt comes through"
        assert "the mount is gone; trying again for a while" in caplog.text
        monkeypatch.setattr(maker, "TRY_FOR_S", -1.0)
        failing[0] = 100
        with pytest.raises(StorageError, match="the mount is gone"):
            list(loader)
        assert failing[0] >= 100 - 2, "one attempt for each sample that was in the making"


def test_a_file_that_could_not_be_read_when_indexed_is_replaced(
    tmp_path: Path, dataset: Path, pipeline: Pipeline
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(1, 6, 2):
        name = f"p{number:02d}.jpg"
        (tmp_path / "in" / name).write_bytes((dataset / "cat" / name).read_bytes())
    (tmp_path / "out.jpg").write_bytes(b"")
    (tmp_path / "in" / "out.jpg").symlink_to(tmp_path / "out.jpg")
    with loading(tmp_path / "in", pipeline=pipeline, batch_size=4) as loader:
        (batch,) = loader
    (replaced,) = batch.replaced
    assert replaced.key == "out.jpg"
    assert "links to" in replaced.reason


def test_without_a_pipeline_batches_hold_the_encoded_bytes(dataset: Path) -> None:
    with loading(dataset, batch_size=24) as loader:
        (batch,) = loader
    assert all(isinstance(item, bytes) for item in batch["image"])
    clips = {dataset / "clips" / f"v{number}.mp4" for number in range(2)}
    assert set(batch["video"]) == {clip.read_bytes() for clip in clips}


def test_arrays_of_different_shapes_come_as_a_list(dataset: Path) -> None:
    with loading(dataset, pipeline=Pipeline([ops.DecodeImage(), ops.ToFloat()])) as loader:
        batch = next(iter(loader))
    images = batch["image"]
    assert isinstance(images, list)
    assert {image.dtype for image in images} == {np.dtype(np.float32)}
    assert images[0].shape[0] == 3


def test_a_field_of_one_kind_only_says_which_rows_it_belongs_to(
    dataset: Path, pipeline: Pipeline
) -> None:
    with loading(dataset, pipeline=pipeline, batch_size=24) as loader:
        (batch,) = loader
    images, clips = batch.rows("image"), batch.rows("video")
    assert len(clips) == len(batch["video"]) == 2
    assert sorted([*images, *clips]) == list(range(24))
    assert batch.rows("label").tolist() == list(range(24))
    with pytest.raises(KeyError, match="it has image, label"):
        batch["audio"]


def code_points(text: str, _draws: Draws) -> np.ndarray:
    return np.array([ord(letter) for letter in text], dtype=np.int32)


def test_texts_are_packed_at_the_end_and_nothing_is_lost(tmp_path: Path) -> None:
    lines = "".join(f'{{"text": "{"a" * (number + 1)}"}}\n' for number in range(8))
    (tmp_path / "a.jsonl").write_text(lines)
    tokens = ops.UserOp(path=f"{__name__}:code_points", fields=("text",))
    pipeline = Pipeline([tokens, ops.Pack(length=16, fields=("text",))])
    with loading(tmp_path, pipeline=pipeline, batch_size=8) as loader:
        (batch,) = loader
    assert batch["text"].shape == (3, 16)
    assert (batch["text"] == ord("a")).sum() == 36
    assert batch.rows("text").tolist() == [0, 1, 2]
    assert len(batch["sample"]) == batch.size == 8


def test_a_mixture_weights_its_sources(tmp_path: Path) -> None:
    for name, count in (("a", 3), ("b", 60)):
        (tmp_path / name).mkdir()
        lines = "".join(f'{{"text": "{name}{number}"}}\n' for number in range(count))
        (tmp_path / name / "t.jsonl").write_text(lines)
    urls = {tmp_path / "a": 1.0, tmp_path / "b": 1.0}
    with Loader(urls, batch_size=4, seed=1, epoch_samples=40) as loader:
        texts = [text for batch in loader for text in batch["text"]]
    assert len(texts) == 40
    assert 15 <= sum(str(text).startswith("a") for text in texts) <= 25


def test_several_datasets_without_weights_are_each_passed_through_once_in_an_epoch(
    tmp_path: Path,
) -> None:
    for name, count in (("a", 3), ("b", 60)):
        (tmp_path / name).mkdir()
        lines = "".join(f'{{"text": "{name}{number}"}}\n' for number in range(count))
        (tmp_path / name / "t.jsonl").write_text(lines)
    with Loader([tmp_path / "a", tmp_path / "b"], batch_size=4, tail="short") as loader:
        texts = [text for batch in loader for text in batch["text"]]
    assert sorted(texts) == sorted([f"a{n}" for n in range(3)] + [f"b{n}" for n in range(60)])
    with pytest.raises(ConfigError, match="named twice"):
        Loader([str(tmp_path / "a"), f"{tmp_path}/a/"], batch_size=4)


def test_a_pipeline_that_does_not_fit_ends_the_loop_in_the_training_thread(dataset: Path) -> None:
    with (
        loading(dataset, pipeline=Pipeline([ops.ToFloat()])) as loader,
        pytest.raises(ConfigError, match="to_float"),
    ):
        list(loader)


def test_an_error_leaves_the_loader_where_it_was(dataset: Path, pipeline: Pipeline) -> None:
    with (
        loading(dataset, pipeline=pipeline, batch_size=8, on_corrupt="raise") as loader,
        pytest.raises(CorruptSampleError),
    ):
        list(loader)
        state = loader.state_dict()
        loader.load_state_dict(state)
        with pytest.raises(CorruptSampleError):
            list(loader)


def test_the_loader_can_be_left_at_any_moment(dataset: Path, pipeline: Pipeline) -> None:
    with pytest.raises(KeyboardInterrupt), loading(dataset, pipeline=pipeline) as loader:
        for _ in loader:
            raise KeyboardInterrupt


def test_an_interrupt_just_after_a_batch_was_taken_does_not_stop_the_next_loop(
    dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Prefetcher.take

    def take_and_interrupt(*args: Any) -> Any:
        monkeypatch.setattr(Prefetcher, "take", take)
        take(*args)
        raise KeyboardInterrupt

    with loading(dataset, pipeline=pipeline, timeout_s=20) as loader:
        monkeypatch.setattr(Prefetcher, "take", take_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
        assert [batch.step for batch in loader] == [0, 1, 2, 3]


def test_a_loop_s_summary_counts_that_loop_only(dataset: Path) -> None:
    with loading(dataset) as loader:
        for batch in loader:
            if batch.step == 2:
                break
        assert loader.summary().steps == 3
        loader.set_epoch(0)
        assert len(list(loader)) == loader.summary().steps == 4


def test_a_loader_that_nobody_closes_stops_when_it_is_forgotten(
    dataset: Path, pipeline: Pipeline
) -> None:
    loader = Loader(dataset, pipeline=pipeline, batch_size=6)
    next(iter(loader))
    del loader


def test_a_closed_loader_says_so(dataset: Path) -> None:
    with loading(dataset) as loader:
        batches = iter(loader)
    loader.close()
    with pytest.raises(CallerError, match="closed"):
        next(batches)
    with pytest.raises(CallerError, match="closed"):
        iter(loader)


def test_two_loops_at_once_are_refused(dataset: Path) -> None:
    with loading(dataset) as loader:
        first = iter(loader)
        next(iter(loader))
        with pytest.raises(CallerError, match="one at a time"):
            next(first)


def test_a_loader_refuses_to_be_pickled(dataset: Path) -> None:
    with loading(dataset) as loader, pytest.raises(CallerError, match="make one in each process"):
        pickle.dumps(loader)


def test_a_loader_refuses_to_work_in_a_forked_process(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loading(dataset) as loader:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(CallerError, match="make it after the fork"):
            iter(loader)


def test_an_op_on_a_field_that_no_sample_has_is_told(
    dataset: Path, caplog: pytest.LogCaptureFixture
) -> None:
    misspelt = Pipeline([ops.DecodeImage(), ops.CenterCrop(8, fields=("imge",))])
    with loading(dataset, pipeline=misspelt):
        pass
    assert "center_crop acts on the field 'imge', which no sample has" in caplog.text
    assert "fields are image, label, video" in caplog.text


def test_folders_of_splits_are_told(
    dataset: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(dataset / "dog", tmp_path / "set" / "train")
    Loader(tmp_path / "set", batch_size=1).close()
    assert f"look like splits: take each as a dataset of its own, such as {tmp_path}" in caplog.text


def test_files_that_came_after_the_index_are_told(
    dataset: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grown = shutil.copytree(dataset, tmp_path / "grown")
    for _ in range(2):
        Loader(grown, batch_size=1).close()
    assert "not in the index" not in caplog.text
    shutil.copy(grown / "dog" / "p00.jpg", grown / "dog" / "p99.jpg")
    Loader(grown, batch_size=1).close()
    assert "1 file not in the index and left out (dog/p99.jpg)" in caplog.text
    assert f"run `headrace index {grown}`" in caplog.text


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'batch_size'"):
        Loader("/nowhere", batchsize=3)
    with pytest.raises(ConfigError, match="needs batch_size"):
        Loader("/nowhere")


@pytest.mark.parametrize(
    ("option", "told"),
    [("num_workers", "write workers="), ("drop_last", "write tail="), ("collate_fn", "ops.Pad")],
)
def test_an_option_of_a_dataloader_is_told_what_it_is_called_here(option: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Loader("/nowhere", batch_size=8, **{option: 2})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "world": 2}, "rank=2"),
        ({"prefetch_bytes": 0}, "prefetch_bytes=0"),
        ({"patience_s": 0}, "patience_s=0"),
        ({"agents": ["nowhere"]}, "unix:/PATH"),
        ({"pipeline": [ops.ToFloat()]}, "no Pipeline"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.0}, "batch_size=2.0 must be an int"),
        ({"seed": None}, "seed=None must be an int"),
        ({"timeout_s": "long"}, "timeout_s='long'"),
        ({"agents": None}, "agents=None"),
        ({"agents": [7411]}, "agents="),
        ({"batch_size": 10**9, "tail": "pad"}, "at most"),
        ({"epoch_samples": 10**30}, "at most"),
        ({"on_corrupt": "substitue"}, "choose substitute or"),
        ({"tail": "keep"}, "choose drop or short or pad"),
        ({"order": "random"}, "choose shuffle or"),
        ({"trace": 5}, "trace=5 must be a folder"),
        ({"token": 5}, "token=5 must be text"),
        ({"run": 5}, "run=5 must be text or None"),
        ({"allocate": 5}, "allocate=5 must be a function"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Loader("/nowhere", **{"batch_size": 2, **options})


@pytest.mark.parametrize("urls", [None, 5, "", [None], b"/data", {"/data": "x"}, {"/data": None}])
def test_what_is_no_dataset_is_refused_in_words(urls: Any) -> None:
    with pytest.raises(ConfigError, match=r"give its path or URL|must be a positive number"):
        Loader(urls, batch_size=2)


def test_a_mistyped_dataset_is_not_found(dataset: Path) -> None:
    with pytest.raises(NotFoundError, match="mixed"):
        Loader(str(dataset)[:-1] + "x", batch_size=2)


def test_statistics_and_explanation_have_something_to_say(
    dataset: Path, pipeline: Pipeline
) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        for batch in loader:
            statistics = loader.statistics()
            assert statistics.next_step == batch.step + 1
            assert statistics.background.prefetch.budget_bytes == 1 << 30
        kinds = {kind.kind: kind.cut for kind in loader.explain()}
    assert kinds == {"image": 4, "video": 4}
    assert digest(batch)


def test_importing_headrace_is_light() -> None:
    import subprocess
    import sys

    code = "import headrace, sys; print(*(m for m in ('torch', 'numpy', 'av') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_public_surface_is_what_is_declared() -> None:
    assert sorted(headrace.__all__) == [
        "Announcement",
        "Batch",
        "EpochSummary",
        "Loader",
        "LoaderConfig",
        "LossLimits",
        "LossMonitor",
        "Pipeline",
        "Replaced",
        "__version__",
        "announce",
        "errors",
        "ops",
        "pin",
        "signal",
    ]
    assert all(getattr(headrace, name) is not None for name in headrace.__all__)
    with pytest.raises(AttributeError, match="it has Announcement"):
        _ = headrace.Loadr  # type: ignore[attr-defined]


def test_batches_are_handed_out_for_good(dataset: Path, pipeline: Pipeline) -> None:
    with loading(dataset, pipeline=pipeline) as loader:
        batches = list(loader)
        before = digests(batches)
        for batch in loader:
            batch["image"][:] = 0
    assert digests(batches) == before
    assert threading.current_thread().is_alive()
