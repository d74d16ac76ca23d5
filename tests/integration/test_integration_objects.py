"""Loaders and agents over a real S3 server: the same batches as over a local directory."""

from __future__ import annotations

import io
import json
import random
import shutil
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import Loader, Pipeline
from headrace.agent.local import LocalAgent
from headrace.core.errors import NotFoundError, StorageError
from headrace.dataset.build import build_index
from headrace.dataset.index import DEFAULT_PATH, Index
from headrace.dataset.reader import SampleReader
from headrace.storage.opening import open_storage
from integration.agents import agent_statistics, wait_until_proven
from integration.test_integration_hdfs import batch_digest, loading, run_epoch
from stores.faulty import NEVER_ENDS, Faulty, Harm, s3_error
from stores.seaweed import BUCKET, Seaweed, as_client
from waiting import eventually

OPTIONS = ("--workers", "1", "--memory", "128MiB", "--cpu-threshold", "1")


@pytest.fixture(scope="module")
def mixed(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures and a clip as files, in a tar file and in Parquet, and lines of text."""
    root = tmp_path_factory.mktemp("mixed")
    pictures = sorted(dataset.glob("dog/*.jpg"))[:24]
    (root / "files/dog").mkdir(parents=True)
    for picture in [*pictures[:8], dataset / "cat/cut0.jpg", dataset / "dog/clip0.mp4"]:
        shutil.copy(picture, root / "files/dog")
    with tarfile.open(root / "000.tar", "w") as tar:
        for picture in pictures[8:16]:
            tar.add(picture, picture.name)
            caption = f"a picture of {picture.stem}".encode()
            member = tarfile.TarInfo(f"{picture.stem}.txt")
            member.size = len(caption)
            tar.addfile(member, io.BytesIO(caption))
    images = [{"bytes": picture.read_bytes(), "path": None} for picture in pictures[16:]]
    pq.write_table(pa.table({"image": images}), root / "000.parquet", row_group_size=3)
    lines = [json.dumps({"text": f"line {number}"}) for number in range(8)]
    (root / "000.jsonl").write_text("\n".join(lines))
    return root


@pytest.fixture(scope="module")
def expected(mixed: Path, pipeline: Pipeline) -> list[str]:
    """The batches of the local directory."""
    with loading(str(mixed), pipeline) as loader:
        return run_epoch(loader)[0]


@pytest.fixture(scope="module")
def in_s3(s3_server: Seaweed, mixed: Path) -> str:
    """The dataset in a bucket, with the index that a loader made of it."""
    with as_client(s3_server.environment):
        s3_server.upload(mixed, "mixed")
        url = f"s3://{BUCKET}/mixed"
        open_storage(url).delete(DEFAULT_PATH)
        loading(url, Pipeline([])).close()
        return url


@pytest.fixture
def proxy(s3: Seaweed) -> Iterator[Faulty]:
    with Faulty(s3.endpoint) as proxy, as_client({"AWS_ENDPOINT_URL": proxy.endpoint}):
        yield proxy


def test_a_loader_over_s3_makes_the_batches_of_a_local_directory(
    s3: Seaweed, in_s3: str, pipeline: Pipeline, expected: list[str]
) -> None:
    with loading(in_s3, pipeline) as loader:
        assert run_epoch(loader)[0] == expected


def test_an_agent_over_s3_makes_them_too_and_reads_later_epochs_from_its_disk(
    s3: Seaweed, in_s3: str, pipeline: Pipeline, expected: list[str], tmp_path: Path
) -> None:
    cache = ("--cache", str(tmp_path), "--cache-bytes", "64MiB", "--worker-memory", "512MiB")
    with (
        LocalAgent([in_s3], options=(*OPTIONS, *cache)) as agent,
        loading(in_s3, pipeline, agent, require_agents=True, check_every=3) as loader,
    ):
        wait_until_proven(agent)
        digests, counts = run_epoch(loader)
        assert digests == expected
        assert counts.tensor > len(digests), "the agent transforms"
        assert counts.local == counts.hedged == 0
        run_epoch(loader)
        assert agent_statistics(agent)["cache"]["hits"] > 10
        assert loader.statistics().background.checks.different == 0


@pytest.mark.parametrize("backend", ["obstore", "fsspec"])
def test_two_jobs_that_resume_at_once_go_on_with_the_batches_of_a_local_directory(
    s3: Seaweed,
    in_s3: str,
    mixed: Path,
    pipeline: Pipeline,
    expected: list[str],
    backend: str,
    tmp_path: Path,
) -> None:
    url = in_s3 if backend == "obstore" else f"fsspec+file://{mixed}"
    build_index(open_storage(url)).save(tmp_path)
    places = random.Random(11).sample(range(len(expected) - 1), 2)
    resuming = threading.Barrier(len(places))

    def interrupted(step: int) -> list[str]:
        options: dict[str, Any] = {"index": tmp_path, "run": str(step)}
        with loading(url, pipeline, **options) as loader:
            before = [batch_digest(batch) for batch in islice(loader, step + 1)]
            state = loader.state_dict()
        resuming.wait(60)
        with loading(url, pipeline, **options) as loader:
            loader.load_state_dict(state)
            return before + run_epoch(loader)[0]

    with ThreadPoolExecutor(len(places)) as jobs:
        assert list(jobs.map(interrupted, places)) == [expected, expected]


def test_an_epoch_goes_on_after_a_server_that_was_killed_and_one_that_throttles(
    proxy: Faulty, in_s3: str, pipeline: Pipeline, expected: list[str]
) -> None:
    def harm(step: int) -> None:
        if step == 0:
            proxy.harms.append(Harm("GET", 3, 503, s3_error("SlowDown")))
        elif step == 1:
            proxy.harms.append(Harm("GET", 2, cut_after=100))
        elif step == 2:
            proxy.fall_silent()
            threading.Timer(1.0, proxy.listen).start()

    with loading(in_s3, pipeline, prefetch_steps=1) as loader:
        digests, counts = run_epoch(loader, harm)
    assert digests == expected
    assert counts.substituted == 1, "the cut picture, and nothing that failed to be read"
    assert not any(each.times for each in proxy.harms)


def test_an_epoch_over_a_store_that_does_not_come_back_ends_with_the_reason(
    proxy: Faulty, in_s3: str, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.maker.TRY_FOR_S", 0.5)
    with (
        as_client({"HEADRACE_OBJECTS_OUTAGE_S": "0.5"}),
        loading(in_s3, pipeline, prefetch_steps=1) as loader,
        pytest.raises(StorageError, match="is it up, and is that the endpoint"),
    ):
        run_epoch(loader, lambda step: proxy.fall_silent() if step == 1 else None)
    proxy.listen()


def test_a_trainer_waits_for_a_store_that_its_agent_cannot_reach(
    proxy: Faulty, in_s3: str, pipeline: Pipeline, expected: list[str]
) -> None:
    def harm(step: int) -> None:
        if step == 1:
            proxy.fall_silent()
            threading.Timer(1.0, proxy.listen).start()

    with (
        LocalAgent([in_s3], options=("--workers", "0")) as agent,
        loading(in_s3, pipeline, agent, prefetch_steps=1) as loader,
    ):
        eventually(lambda: loader.statistics().background.agents[0].state != "down")
        digests, counts = run_epoch(loader, harm)
    assert digests == expected
    assert sum(counts.raw.values()) > 0, "the agent reads as well"


def test_a_trainer_without_keys_gets_index_and_bytes_from_agents(
    s3: Seaweed,
    in_s3: str,
    pipeline: Pipeline,
    expected: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        LocalAgent([in_s3], options=("--workers", "0")) as agent,
        as_client({"AWS_ACCESS_KEY_ID": "nobody"}),
        loading(in_s3, pipeline, agent) as loader,
    ):
        assert loader.job.sources[0].reader is None
        assert "AWS_ACCESS_KEY_ID" in caplog.text
        assert run_epoch(loader)[0] == expected


def test_a_sample_costs_one_request_and_a_run_of_a_shard_as_well(proxy: Faulty, in_s3: str) -> None:
    storage = open_storage(in_s3)
    index, reader = Index.load(storage), SampleReader(storage)
    places = [index.location(sample) for sample in range(len(index))]
    proxy.requests.clear()
    files = [place for place in places if place.container == "file"]
    for place in files:
        reader.read_raw(place)
    assert len(proxy.requests) == len(files) == 10
    proxy.requests.clear()
    members = [place for place in places if place.container == "tar"]
    assert len(reader.read_run(members)) == 8
    assert len(proxy.requests) == 1


def test_a_dataset_that_was_mistyped_is_told(s3: Seaweed, in_s3: str) -> None:
    with pytest.raises(NotFoundError, match=r"did you mean s3://\S+/mixed\?"):
        Loader(f"{in_s3}d", batch_size=1)


def test_an_index_of_a_bucket_names_what_that_of_the_directory_names(
    s3: Seaweed, in_s3: str, mixed: Path
) -> None:
    remote, local = (build_index(open_storage(str(url))) for url in (in_s3, mixed))
    assert len(remote) == len(local) > 30
    assert [remote.location(n).file for n in range(len(remote))] == [
        local.location(n).file for n in range(len(local))
    ]


def test_a_store_that_refuses_for_good_ends_the_epoch(
    proxy: Faulty, in_s3: str, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.maker.TRY_FOR_S", 0.5)

    def harm(step: int) -> None:
        proxy.harms.append(Harm("GET", NEVER_ENDS, 403, s3_error("RequestTimeTooSkewed")))

    with (
        loading(in_s3, pipeline, prefetch_steps=1) as loader,
        pytest.raises(StorageError, match="the clock of this host is wrong"),
    ):
        run_epoch(loader, harm)
