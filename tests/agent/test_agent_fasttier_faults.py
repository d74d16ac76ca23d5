"""A fast tier that rots, fills up or loses its agent under a loader: the batches stay the same."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from client_for_tests import connect
from fasttier_for_tests import make_texts

from headrace import Batch, Loader, Pipeline, ops
from headrace.agent.fasttier.statistics import FastTierStatistics
from headrace.agent.local import LocalAgent
from headrace.agent.statistics import AgentStatistics
from headrace.wire.endpoint import Endpoint
from waiting import eventually

PIPELINE = Pipeline([ops.DecodeText()])
OPTIONS = ("--workers", "1", "--memory", "64MiB", "--cpu-threshold", "1", "--cache-bytes", "8MiB")
EPOCHS = 4


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_texts(tmp_path_factory.mktemp("lake") / "texts", count=640, shards=2)


@pytest.fixture(scope="module")
def expected(texts: Path) -> list[object]:
    with loading(texts) as loader:
        return [batch["text"] for batch in epochs(loader)]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The fast tier's folder, with a file of somebody else."""
    (tmp_path / "headrace-runs.000").write_bytes(b"garbage")
    return tmp_path


@contextmanager
def loading(texts: Path, agent: LocalAgent | None = None) -> Iterator[Loader]:
    link = {"agents": [agent.address], "token": agent.token} if agent else {}
    with Loader(
        texts, pipeline=PIPELINE, batch_size=16, seed=3, workers=1, patience_s=5, grace_s=5,
        **link,  # type: ignore[arg-type]
    ) as loader:  # fmt: skip
        yield loader


def epochs(loader: Loader) -> Iterator[Batch]:
    return itertools.chain.from_iterable(loader for _ in range(EPOCHS))


def statistics(agent: LocalAgent) -> FastTierStatistics:
    endpoint = Endpoint(address=agent.address, token=agent.token)
    found = connect(endpoint).call("GET", "/v1/statistics", AgentStatistics).cache
    assert found is not None
    return found


def texts_with(
    agent: LocalAgent, texts: Path, disturb: Callable[[], None], *, after: int = 60
) -> list[object]:
    """Return all batches' texts; something is disturbed after so many, once copies were made."""
    seen: list[object] = []
    with loading(texts, agent) as loader:
        for batch in epochs(loader):
            seen.append(batch["text"])
            if len(seen) == after:
                eventually(lambda: statistics(agent).samples > 0)
                disturb()
    return seen


def overwrite(agent: LocalAgent, cache: Path) -> None:
    """Spoil every byte of an agent's fast tier, as a failing disk would."""
    for link in Path(f"/proc/{agent.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # the agent closed it since
            if not str(link.readlink()).startswith(f"{cache}/"):
                continue
            with link.open("r+b") as file:
                file.write(b"\xff" * (8 << 20))


def fill_disk(agent: LocalAgent) -> None:
    """Let no file grow, and nothing be written beyond 4 KiB of it, as on a disk that is full."""
    process = psutil.Process(agent.pid)
    for one in (process, *process.children(recursive=True)):
        resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (4096, 4096))


@pytest.mark.parametrize("reorder", ["ordered", "always"])
def test_copies_that_rot_are_never_delivered(
    texts: Path, expected: list[object], cache: Path, reorder: str
) -> None:
    options = (*OPTIONS, "--cache", str(cache), "--reorder", reorder)
    with LocalAgent([texts], options=options) as agent:
        assert texts_with(agent, texts, lambda: overwrite(agent, cache)) == expected
        assert statistics(agent).corrupt > 0
        assert statistics(agent).off == ""


def test_a_disk_that_is_full_costs_the_fast_tier_and_no_sample(
    texts: Path, expected: list[object], cache: Path
) -> None:
    options = (*OPTIONS, "--cache", str(cache), "--cache-bytes", "600kB")
    with (
        (cache / "words").open("wb") as words,
        LocalAgent([texts], options=options, stderr=words) as agent,
    ):
        assert texts_with(agent, texts, lambda: fill_disk(agent)) == expected
        assert "writing to it failed" in statistics(agent).off
    assert b"the fast tier is not used any more" in (cache / "words").read_bytes()


def test_an_agent_that_is_killed_in_the_middle_of_long_reads_begins_with_an_empty_tier(
    texts: Path, expected: list[object], cache: Path
) -> None:
    options = (*OPTIONS, "--cache", str(cache), "--reorder", "always")
    with LocalAgent([texts], options=options) as agent:

        def crash() -> None:
            eventually(lambda: statistics(agent).runs > 0)
            agent.kill()
            assert [path.name for path in cache.iterdir()] == ["headrace-runs.000"]
            agent.start()

        assert texts_with(agent, texts, crash, after=10) == expected
        assert statistics(agent).corrupt == 0
    assert (cache / "headrace-runs.000").read_bytes() == b"garbage"
