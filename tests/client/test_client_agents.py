"""Whatever agents do, the batches are the same and the loop goes on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import fake_agent as fake
import msgspec
import pytest
from epochs import digests, epoch, loading
from fake_agent import FakeAgent, faking

from headrace import Loader, Pipeline
from headrace.client import fleet
from headrace.client.counts import Counts
from headrace.client.maker import Maker
from headrace.core.errors import (
    AgentUnavailableError,
    AuthError,
    CorruptSampleError,
    HeadraceError,
    RefusedError,
    StaleIndexError,
)
from headrace.wire.messages import ErrorAnswer, FetchRequest
from waiting import eventually

NOBODY = "http://127.0.0.1:9"
QUICK = {"patience_s": 0.2, "grace_s": 0.1}


@pytest.fixture(scope="module")
def expected(dataset: Path, pipeline: Pipeline) -> list[str]:
    return epoch(dataset, pipeline=pipeline)


@pytest.mark.parametrize(
    "behave",
    [
        fake.honest,
        fake.backwards,
        fake.all_raw,
        fake.unreadable,
        fake.earlier_cut,
        fake.half_then_dead,
        fake.half_then_end,
        fake.not_asked_for,
        fake.silent,
        fake.slow,
        fake.half_a_frame,
    ],
)
def test_the_batches_are_the_same_whatever_an_agent_does(
    dataset: Path, pipeline: Pipeline, expected: list[str], behave: fake.Behaviour
) -> None:
    with faking(FakeAgent("a", behave)) as agents:
        assert epoch(dataset, pipeline=pipeline, agents=agents, **QUICK) == expected


def test_two_agents_are_asked_for_their_own_samples_only(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    one, two = FakeAgent("one", fake.honest), FakeAgent("two", fake.honest)
    with faking(one, two) as agents:
        assert epoch(dataset, pipeline=pipeline, agents=agents) == expected
    asked = [
        {(f.step, sample) for f in agent.fetches for sample in f.samples} for agent in (one, two)
    ]
    assert asked[0] and asked[1] and not asked[0] & asked[1]
    names = [[entry.name for entry in agent.told[-1].roster] for agent in (one, two)]
    assert names == [["one", "two"], ["one", "two"]]


def test_counts_tell_how_samples_came(dataset: Path, pipeline: Pipeline) -> None:
    with (
        faking(FakeAgent("a", fake.honest)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents) as loader,
    ):
        list(loader)
        counts = loader.summary().counts
    assert counts.samples == 24
    assert counts.tensor + counts.substituted == 24
    assert counts.local == counts.hedged == counts.raw.total() == 0
    assert counts.wire_bytes > 20 * 24 * 24 * 3
    with (
        faking(FakeAgent("a", fake.all_raw)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents) as loader,
    ):
        list(loader)
        counts = loader.summary().counts
    assert counts.raw == {"busy": 24}


def test_progress_is_told_with_every_fetch(dataset: Path, pipeline: Pipeline) -> None:
    with (
        faking(agent := FakeAgent("a", fake.honest)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, prefetch_steps=1) as loader,
    ):
        for _ in loader:
            time.sleep(0.02)
    last = next(fetch for fetch in agent.fetches if fetch.step == 3)
    assert last.consumed_step in (1, 2)
    assert agent.fetches[0].consumed_step == -1
    assert last.step_time_s >= 0.02
    assert last.wait_s >= 0.5


def test_preparation_begins_before_the_first_loop_and_where_a_state_resumes(
    dataset: Path, pipeline: Pipeline
) -> None:
    with (
        faking(agent := FakeAgent("a", fake.honest)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents) as loader,
    ):
        assert [message.start_step for message in agent.registered] == [0]
        loader.load_state_dict({**loader.state_dict(), "step": 2})
        assert next(iter(loader)).step == 2
        assert agent.registered[-1].start_step == 2


def test_an_agent_that_restarted_is_told_the_job_again(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    with (
        faking(agent := FakeAgent("a", fake.honest)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, prefetch_steps=1) as loader,
    ):
        seen = []
        for batch in loader:
            seen.append(batch)
            if batch.step == 0:
                agent.restart()
            if batch.step == 1:
                eventually(lambda: len(agent.registered) == 2)
        assert digests(seen) == expected
        assert any(fetch.step == 3 for fetch in agent.fetches)


def test_a_wrong_token_is_an_error_at_once(dataset: Path, pipeline: Pipeline) -> None:
    with (
        faking(FakeAgent("a", fake.honest, token="right")) as agents,
        pytest.raises(AuthError, match="token is wrong"),
    ):
        Loader(dataset, pipeline=pipeline, batch_size=6, agents=agents, token="false")


def test_a_token_that_is_refused_later_ends_the_loop(dataset: Path, pipeline: Pipeline) -> None:
    agent = FakeAgent("a", fake.honest, token="right")
    with (
        faking(agent) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, token="right") as loader,
    ):
        agent.token = "changed"
        with pytest.raises(AuthError, match="token is wrong"):
            list(loader)


def test_the_token_is_read_from_the_environment(
    dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "from-the-environment")
    with faking(FakeAgent("a", fake.honest, token="from-the-environment")) as agents:
        assert len(epoch(dataset, pipeline=pipeline, agents=agents)) == 4


def test_an_agent_that_refuses_the_job_is_an_error_at_once(
    dataset: Path, pipeline: Pipeline
) -> None:
    agent = FakeAgent("a", fake.honest)
    agent.refusal = ErrorAnswer(error="/data is not below a root", code="outside-roots")
    with faking(agent) as agents, pytest.raises(RefusedError, match="not below a root") as caught:
        Loader(dataset, pipeline=pipeline, batch_size=6, agents=agents)
    assert caught.value.code == "outside-roots"


def test_an_agent_that_refuses_only_later_is_left_out(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    agent = FakeAgent("a", fake.honest)
    with faking(agent) as agents, loading(dataset, pipeline=pipeline, agents=agents) as loader:
        agent.restart()
        agent.refusal = ErrorAnswer(error="/data is not below a root", code="outside-roots")
        assert digests(loader) == expected
        assert loader.statistics().background.agents[0].state == "down"


def test_an_agent_that_is_not_there_is_one_warning(
    dataset: Path, pipeline: Pipeline, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "headrace.client"):
        assert epoch(dataset, pipeline=pipeline, agents=[NOBODY]) == expected
    warnings = [record.message for record in caplog.records if NOBODY in record.message]
    assert len(warnings) == 1
    assert "is it running" in warnings[0]


def test_an_agent_that_is_required_must_be_there(dataset: Path, pipeline: Pipeline) -> None:
    with pytest.raises(AgentUnavailableError, match="require_agents"):
        Loader(dataset, pipeline=pipeline, batch_size=6, agents=[NOBODY], require_agents=True)


def test_an_agent_whose_storage_is_away_for_now_is_asked_again(
    dataset: Path, pipeline: Pipeline, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent("a", fake.honest)
    agent.refusal_status = 502
    agent.refusal = ErrorAnswer(error="the NameNode does not answer", code="storage")
    with (
        caplog.at_level(logging.WARNING, "headrace.client"),
        faking(agent) as agents,
        loading(dataset, pipeline=pipeline, agents=agents) as loader,
    ):
        assert digests(loader) == expected
        assert "the NameNode does not answer; going on without it" in caplog.text
        agent.refusal = None
        eventually(lambda: loader.statistics().background.agents[0].state == "up")


def test_a_required_agent_whose_storage_is_away_says_so(dataset: Path, pipeline: Pipeline) -> None:
    agent = FakeAgent("a", fake.honest)
    agent.refusal_status = 502
    agent.refusal = ErrorAnswer(error="the NameNode does not answer", code="storage")
    with faking(agent) as agents, pytest.raises(AgentUnavailableError, match="NameNode"):
        Loader(dataset, pipeline=pipeline, batch_size=6, agents=agents, require_agents=True)


def test_an_agent_frozen_at_the_start_delays_it_a_little_and_is_asked_again(
    dataset: Path, pipeline: Pipeline, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "REGISTER_TIMEOUT_S", 0.3)
    agent = FakeAgent("a", fake.honest)
    agent.is_frozen = True
    begin = time.monotonic()
    with faking(agent) as agents, loading(dataset, pipeline=pipeline, agents=agents) as loader:
        assert time.monotonic() - begin < 10
        assert digests(loader) == expected
        agent.is_frozen = False
        agent.released.set()
        eventually(lambda: loader.statistics().background.agents[0].state == "up")


def test_a_lying_agent_is_found_out_and_asked_for_raw_bytes_only(
    dataset: Path, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        faking(agent := FakeAgent("liar", fake.lying)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, check_every=1) as loader,
    ):
        next(iter(loader))
        eventually(lambda: loader.statistics().background.checks.different > 0)
        eventually(lambda: loader.statistics().background.agents[0].state == "raw-only")
        before = len(agent.fetches)
        list(loader)
        assert {fetch.want for fetch in agent.fetches[before + 4 :]} <= {"raw"}
        assert agent.fetches[-1].want == "raw"
    assert "liar" in caplog.text and "is not what this host makes of it" in caplog.text


def test_spot_checks_of_an_honest_agent_find_nothing(dataset: Path, pipeline: Pipeline) -> None:
    with (
        faking(FakeAgent("a", fake.honest)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, check_every=2) as loader,
    ):
        list(loader)
        eventually(lambda: loader.statistics().background.checks.equal > 0)
        assert loader.statistics().background.checks.different == 0


def test_a_spot_check_that_cannot_be_done_costs_no_decoding_thread(
    dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object, **__: object) -> None:
        raise StaleIndexError("the file was modified")

    monkeypatch.setattr(Maker, "recompute", stale)
    with (
        faking(FakeAgent("a", fake.honest)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, check_every=1, workers=1) as loader,
    ):
        list(loader)
        eventually(lambda: loader.statistics().background.checks.skipped >= 2)
        (decoder,) = [t for t in threading.enumerate() if t.name == "headrace-decode-0"]
        assert decoder.is_alive()
        assert loader.statistics().background.agents[0].state == "up"


def test_a_silent_agent_costs_one_wait_and_is_then_left_out(
    dataset: Path, pipeline: Pipeline
) -> None:
    with (
        faking(FakeAgent("a", fake.silent)) as agents,
        loading(dataset, pipeline=pipeline, agents=agents, **QUICK) as loader,
    ):
        begin = time.monotonic()
        list(loader)
        assert loader.summary().counts.hedged >= 6
        assert loader.statistics().background.agents[0].failures >= 1
    assert time.monotonic() - begin < 10


def test_an_agent_that_is_away_for_a_night_is_still_tried_again(
    dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "FIRST_RETRY_S", 1e-6)
    monkeypatch.setattr(fleet, "LONGEST_RETRY_S", 1e-6)
    with loading(dataset, pipeline=pipeline, agents=[NOBODY], **QUICK) as loader:
        next(iter(loader))
        eventually(lambda: loader.statistics().background.agents[0].failures > 1100)


def test_a_sample_that_crashed_a_worker_is_decoded_in_a_process_of_its_own(
    tmp_path: Path, dataset: Path, pipeline: Pipeline
) -> None:
    for number in range(2):
        data = (dataset / "cat" / f"p0{1 + 2 * number}.jpg").read_bytes()
        (tmp_path / f"{number}.jpg").write_bytes(data)
    expected = epoch(tmp_path, pipeline=pipeline, batch_size=2)
    with (
        faking(FakeAgent("a", fake.crashing_raw)) as agents,
        loading(tmp_path, pipeline=pipeline, batch_size=2, agents=agents) as loader,
    ):
        seen = digests([next(iter(loader))])
        assert loader.summary().counts.raw["crashed"] == 1
    assert seen == expected[:1]


def corrupt(agent: FakeAgent, request: FetchRequest) -> Iterator[object]:
    for sample, epoch_ in zip(request.samples, request.epochs, strict=True):
        yield agent.missing(sample, epoch_, "corrupt", "the agent says it is broken")


def test_what_an_agent_finds_corrupt_follows_the_policy(dataset: Path, pipeline: Pipeline) -> None:
    with (
        faking(FakeAgent("a", corrupt)) as agents,  # type: ignore[arg-type]
        loading(dataset, pipeline=pipeline, agents=agents, on_corrupt="raise") as loader,
        pytest.raises(CorruptSampleError, match="the agent says it is broken"),
    ):
        list(loader)


def test_files_that_vanish_end_the_loop_with_their_names(tmp_path: Path, dataset: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.jpg").write_bytes((dataset / "cat" / "p01.jpg").read_bytes())
    with loading(tmp_path, batch_size=2) as loader:
        for path in tmp_path.glob("*.jpg"):
            path.unlink()
        with pytest.raises(HeadraceError, match=r"\d\.jpg"):
            for _ in range(100):  # some of which may have been read ahead
                list(loader)


def test_a_frame_that_stops_in_the_middle_holds_a_step_up_no_longer_than_one_that_does_not_come(
    dataset: Path, pipeline: Pipeline
) -> None:
    patience = {"patience_s": 3.0, "grace_s": 0.1, "prefetch_steps": 1}

    def took_s() -> float:
        with (
            faking(FakeAgent("a", fake.half_a_frame)) as agents,
            loading(dataset, pipeline=pipeline, agents=agents, **patience) as loader,
        ):
            begin_s = time.monotonic()
            next(iter(loader))
            assert loader.statistics().background.agents[0].state == "up"
            return time.monotonic() - begin_s

    # 3.1 s, after 2.4 s of which the frame stops; the machine may be busy once
    assert any(took_s() < 5.0 for _ in range(3))


def test_agents_that_were_away_are_asked_back_at_the_same_time(
    dataset: Path, pipeline: Pipeline
) -> None:
    three = [FakeAgent(name, fake.honest) for name in ("one", "two", "three")]
    for agent in three:
        agent.refusal, agent.refusal_status = ErrorAnswer(error="full", code="busy"), 503
    within, several = threading.Semaphore(1), threading.Event()

    def meet() -> None:
        if not within.acquire(blocking=False):
            several.set()
            return
        several.wait(1)  # the first is asked alone; the others are due before it has answered
        within.release()

    with faking(*three) as agents, loading(dataset, pipeline=pipeline, agents=agents):
        for agent in three:
            agent.meet = meet  # type: ignore[method-assign]
            agent.refusal = None
        eventually(several.is_set)


def test_the_time_that_samples_are_on_their_way_is_counted_where_agents_tell_when_they_left(
    dataset: Path, pipeline: Pipeline
) -> None:
    def late(agent: FakeAgent, request: FetchRequest) -> fake.Frames:
        for header, record in agent.honest(request):
            yield msgspec.structs.replace(header, queued_s=0.02, after_s=0.02), record
            time.sleep(0.05)

    def counts_of(behave: fake.Behaviour) -> Counts:
        with (
            faking(FakeAgent("a", behave)) as agents,
            loading(dataset, pipeline=pipeline, agents=agents) as loader,
        ):
            list(loader)
            return loader.summary().counts

    told = counts_of(late)
    assert told.link_s > 0.5
    assert told.latency_s > 0.8 * (told.link_s + told.queued_s)
    assert counts_of(fake.honest).link_s == 0.0
