"""What the job's quota holds back is waited for; what is silent meanwhile is not."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NoReturn

import fake_agent as fake
import pytest
from epochs import digests, epoch, loading
from fake_agent import CutOff, FakeAgent, Frames, faking
from fake_controller import FakeController

from headrace import Loader, Pipeline
from headrace.client import maker, sources
from headrace.client.maker import Maker
from headrace.core.errors import DeadlineError, StorageError
from headrace.dataset.index import Index
from headrace.storage.local import LocalStorage
from headrace.wire.control import HealthAnswer
from headrace.wire.frames import FrameHeader
from headrace.wire.messages import FetchRequest
from waiting import eventually

QUICK = {"patience_s": 0.2, "grace_s": 0.2, "prefetch_steps": 1}
PATIENT = {**QUICK, "patience_s": 0.4, "grace_s": 0.4}
"""For agents that tell often that they hold back, which a busy machine delays."""

TIMEOUT_S = 0.5


@pytest.fixture(scope="module")
def expected(dataset: Path, pipeline: Pipeline) -> list[str]:
    return epoch(dataset, pipeline=pipeline)


def held_then(behave: fake.Behaviour, seconds: float) -> fake.Behaviour:
    """Tell for so long that the quota holds those of the first step back, then behave."""

    def behaviour(agent: FakeAgent, request: FetchRequest) -> Frames:
        end = time.monotonic() + seconds
        while not request.step and time.monotonic() < end and not agent.released.wait(0.05):
            yield FrameHeader(kind="held"), {}
        yield from behave(agent, request)

    return behaviour


def raw_held_then(behave: fake.Behaviour, seconds: float) -> fake.Behaviour:
    """The same where raw bytes are asked for; anything else cannot be had."""
    raw = held_then(behave, seconds)

    def behaviour(agent: FakeAgent, request: FetchRequest) -> Frames:
        return (raw if request.want == "raw" else fake.unreadable)(agent, request)

    return behaviour


@pytest.fixture
def unseen(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trainers get everything from agents."""

    def away(_: str) -> NoReturn:
        raise StorageError("the disk is not mounted here")

    monkeypatch.setattr(sources, "open_storage", away)
    index = Index.load(LocalStorage(dataset))
    monkeypatch.setattr(sources, "fetch_index", lambda *_: index)


def taken_at(loader: Loader) -> tuple[threading.Thread, list[float]]:
    """Take one step in a thread; the list gets the time that it took."""
    times: list[float] = []

    def take() -> None:
        begin = time.monotonic()
        next(iter(loader))
        times.append(time.monotonic() - begin)

    thread = threading.Thread(target=take)
    thread.start()
    return thread, times


def test_samples_that_an_agent_holds_back_are_waited_for_past_the_deadline(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    agent = FakeAgent("a", held_then(fake.honest, 2 * TIMEOUT_S))
    with (
        faking(agent) as agents,
        loading(
            dataset, pipeline=pipeline, agents=agents, timeout_s=TIMEOUT_S, **PATIENT
        ) as loader,
    ):
        assert digests(loader) == expected
        counts = loader.summary().counts
    assert counts.hedged + counts.local < counts.samples / 4  # the machine may be busy at once


def test_raw_bytes_that_an_agent_holds_back_are_waited_for_past_the_deadline(
    dataset: Path, pipeline: Pipeline, expected: list[str], unseen: None
) -> None:
    agent = FakeAgent("a", raw_held_then(fake.all_raw, 2 * TIMEOUT_S))
    options = {"timeout_s": TIMEOUT_S, "workers": 8, **QUICK}
    with faking(agent) as agents:
        assert epoch(dataset, pipeline=pipeline, agents=agents, **options) == expected


def test_direct_reads_that_the_quota_holds_back_are_waited_for_past_the_deadline(
    dataset: Path,
) -> None:
    controller = FakeController()
    controller.answer = HealthAnswer(score=50.0, level="tight", mode="none", quotas={"hdd": 24e3})
    options = {"controller": controller.address, "timeout_s": TIMEOUT_S, **QUICK}
    with loading(dataset, pipeline=Pipeline([]), **options) as loader:
        eventually(lambda: _is_limited(loader))
        thread, times = taken_at(loader)
        thread.join(20)
        throttled_s = loader.summary().counts.throttled_s
    controller.close()
    assert times
    assert times[0] > 2 * TIMEOUT_S
    assert throttled_s > times[0] / 2


def _is_limited(loader: Loader) -> bool:
    control = loader.statistics().control
    return control is not None and control.direct_bytes_per_s is not None


def test_an_agent_that_falls_silent_while_it_holds_back_is_done_without(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    agent = FakeAgent("a", held_then(fake.silent, 0.3))
    with (
        faking(agent) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, **QUICK) as loader,
    ):
        assert digests(loader) == expected
        counts = loader.summary().counts
    assert counts.hedged > 0
    assert counts.hedged + counts.local == 24


def test_an_agent_that_is_silent_is_done_without_while_another_holds_back(
    dataset: Path, pipeline: Pipeline
) -> None:
    one, two = FakeAgent("one", held_then(fake.honest, 20.0)), FakeAgent("two", fake.silent)
    with (
        faking(one, two) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, **PATIENT) as loader,
    ):
        thread, times = taken_at(loader)
        eventually(lambda: loader.statistics().background.agents[1].state == "down")
        assert not times, "the other one still holds its samples back"
        one.released.set()
        thread.join(10)
        counts = loader.summary().counts
    assert 0 < counts.hedged < counts.samples


def test_storage_that_hangs_ends_the_loop_once_no_quota_is_the_reason(
    dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = FakeAgent("a", held_then(fake.silent, 2 * TIMEOUT_S))

    def hang(*_: object, **__: object) -> NoReturn:
        agent.released.wait(30)
        raise StorageError("released")

    monkeypatch.setattr(Maker, "make", hang)
    begin = time.monotonic()  # a loader asks as soon as it is made
    with (
        faking(agent) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, timeout_s=TIMEOUT_S, **QUICK) as loader,
    ):
        with pytest.raises(DeadlineError, match="step 0"):
            next(iter(loader))
        assert 2 * TIMEOUT_S < time.monotonic() - begin < 3 * TIMEOUT_S + 10
        agent.released.set()


def test_a_wait_for_the_quota_does_not_outlast_the_loader(
    dataset: Path, pipeline: Pipeline, unseen: None
) -> None:
    agent = FakeAgent("a", raw_held_then(fake.all_raw, 25.0))
    with faking(agent) as agents:
        with loading(dataset, pipeline=pipeline, agents=agents, **QUICK) as loader:
            iter(loader)
            eventually(lambda: any(fetch.want == "raw" for fetch in agent.fetches))
            begin = time.monotonic()
        assert time.monotonic() - begin < 10


def test_an_agent_that_fails_after_it_held_back_is_asked_again(
    dataset: Path,
    pipeline: Pipeline,
    expected: list[str],
    unseen: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maker, "TRY_FOR_S", 0.6)
    failed: set[int] = set()

    def fail_once(agent: FakeAgent, request: FetchRequest) -> Frames:
        if request.samples[0] not in failed:
            failed.add(request.samples[0])
            raise CutOff
        yield from fake.all_raw(agent, request)

    agent = FakeAgent("a", raw_held_then(fail_once, 1.0))
    with faking(agent) as agents:
        assert epoch(dataset, pipeline=pipeline, agents=agents, workers=8, **QUICK) == expected
    assert len(failed) == 24
