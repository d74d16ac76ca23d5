"""A loader that reports to a controller: one that works, one that is away, one that lies."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from fake_controller import HANGS_S, FakeController, Said, refusal

from headrace import Loader, Pipeline
from headrace.client.reporting import reporter as reporting
from headrace.client.reporting.standing import ControlStatistics
from headrace.core.errors import ConfigError
from headrace.wire.control import MOST_REPORT_BYTES, HealthAnswer
from waiting import eventually

BATCH = 4


@pytest.fixture
def controller() -> Iterator[FakeController]:
    controller = FakeController()
    yield controller
    controller.close()


@pytest.fixture(autouse=True)
def quick_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a few milliseconds are reported one by one."""
    monkeypatch.setattr(reporting, "LEAST_S", 0.0)


@contextmanager
def loading(dataset: Path, controller: FakeController | str, **options: Any) -> Iterator[Loader]:
    address = controller if isinstance(controller, str) else controller.address
    options = {"pipeline": Pipeline([]), "batch_size": BATCH, "controller": address, **options}
    with Loader(str(dataset), **options) as loader:
        yield loader


def step_by_step(loader: Loader, controller: FakeController, *, steps: int | None = None) -> int:
    """Take steps, each after the one before was reported."""
    first = _iteration(controller) + 1
    for taken, _ in enumerate(loader, 1):
        goal = first + taken - 1
        controller.wait_for(lambda goal=goal: _iteration(controller) >= goal)
        if taken == steps:
            break
    return taken


def _iteration(controller: FakeController) -> int:
    return controller.reports[-1].iteration if controller.reports else -1


def bytes_of(loader: Loader) -> list[list[bytes]]:
    return [[np.asarray(batch["sample"]).tobytes()] for batch in loader]


def test_a_job_is_announced_with_what_it_will_read(
    dataset: Path, controller: FakeController
) -> None:
    with loading(dataset, controller, job_title="vision", job_weight=2.5) as loader:
        controller.wait_for(lambda: bool(controller.announced))
        told = controller.announced[0]
        whole = loader.job.lengths(loader.job.schedule.batch(0).samples).sum()
    assert (told.title, told.weight, told.world, told.hosts) == ("vision", 2.5, 1, 1)
    assert told.data_path == msgspec.structs.replace(loader.job.spec, run="").id
    assert told.upcoming_bytes[0] == whole
    assert len(told.upcoming_bytes) == 8


def test_each_iteration_is_reported_once_and_in_order(
    dataset: Path, controller: FakeController
) -> None:
    with loading(dataset, controller) as loader:
        steps = step_by_step(loader, controller)
        first = controller.reports[0]
        unready = first.step + max(int(first.queue_depth), 1)
        lengths = loader.job.lengths(loader.job.schedule.batch(unready).samples)
    assert [report.iteration for report in controller.reports] == list(range(steps))
    assert [report.step for report in controller.reports] == list(range(steps))
    assert {report.boot for report in controller.reports} == {controller.announced[0].boot}
    assert max(controller.lengths) < MOST_REPORT_BYTES
    assert first.next_bytes == lengths.sum()
    assert first.queue_capacity == 8
    assert first.direct_bytes["hdd"] > 0
    assert first.split == {"hdd": 1.0}


def test_own_reads_are_of_the_storage_tier_that_the_loader_was_told(
    dataset: Path, controller: FakeController
) -> None:
    controller.answer = HealthAnswer(
        score=80.0, level="healthy", mode="none", quotas={"hdd": 1.0, "nvme": 1e9}
    )
    with loading(dataset, controller, storage_tier="nvme") as loader:
        step_by_step(loader, controller, steps=2)
        control = loader.statistics().control
    assert controller.reports[0].split == {"nvme": 1.0}
    assert controller.reports[0].direct_bytes.keys() == {"nvme"}
    assert control is not None
    assert control.direct_bytes_per_s == 1e9


def test_a_controller_is_found_through_the_environment(
    dataset: Path, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CONTROLLER", controller.address)
    with Loader(str(dataset), batch_size=BATCH) as loader:
        controller.wait_for(lambda: bool(controller.announced))
        assert loader.statistics().control is not None
    with Loader(str(dataset), batch_size=BATCH, controller="") as loader:
        assert loader.statistics().control is None


def test_statistics_show_what_the_controller_said(
    dataset: Path, controller: FakeController
) -> None:
    controller.answer = HealthAnswer(
        score=34.5, level="danger", mode="thrash", reason="why", quotas={"hdd": 1e9}
    )
    with loading(dataset, controller) as loader:
        step_by_step(loader, controller, steps=2)
        control = loader.statistics().control
        assert control is not None
        assert (control.score, control.level, control.mode) == (34.5, "danger", "thrash")
        assert control.quotas == {"hdd": 1e9}
        assert control.speaks
        assert not control.away
        assert control.answered_ago_s is not None


def test_a_job_that_has_not_reported_has_no_score(
    dataset: Path, controller: FakeController
) -> None:
    controller.answer = HealthAnswer(
        score=100.0, level="healthy", mode="none", reason="no report yet", quotas={"hdd": 1e9}
    )
    with loading(dataset, controller) as loader:
        _wait_until_limited(loader)
        control = loader.statistics().control
        assert control is not None
        assert (control.score, control.level, control.mode) == (None, "", "")
        assert control.reason == "no report yet"
        step_by_step(loader, controller, steps=2)
        control = loader.statistics().control
        assert control is not None
        assert (control.score, control.level) == (100.0, "healthy")


def test_the_host_leaves_when_its_loader_is_closed(
    dataset: Path, controller: FakeController
) -> None:
    with loading(dataset, controller) as loader:
        step_by_step(loader, controller, steps=1)
    assert controller.left == [f"host={controller.announced[0].host}"]


def test_reports_come_as_seldom_as_the_controller_asks(
    dataset: Path, controller: FakeController
) -> None:
    controller.answer = HealthAnswer(score=80.0, level="healthy", mode="none", every=3)
    with loading(dataset, controller) as loader:
        _wait_until_heard(loader, lambda control: control.answered_ago_s is not None)
        for _ in loader:
            time.sleep(0.05)
        controller.wait_for(lambda: bool(controller.reports))
    iterations = [report.iteration for report in controller.reports]
    assert iterations
    assert all(later - sooner >= 3 for sooner, later in itertools.pairwise(iterations))


def test_a_controller_that_lost_its_memory_is_told_of_the_job_again(
    dataset: Path, controller: FakeController
) -> None:
    with loading(dataset, controller) as loader:
        step_by_step(loader, controller, steps=2)
        done = controller.reports[-1].iteration + 1
        controller.forget()
        controller.announced.clear()
        next(iter(loader))
        controller.wait_for(lambda: _iteration(controller) >= done)
    assert controller.announced[0].iteration >= done
    assert controller.announced[0].boot == controller.reports[0].boot


def test_a_report_whose_answer_was_lost_does_no_harm(
    dataset: Path, controller: FakeController
) -> None:
    with loading(dataset, controller) as loader:
        step_by_step(loader, controller, steps=2)
        refusals = iter([refusal(409, "stale-report")])

        def once() -> Said | None:
            said = next(refusals)
            controller.instead = None
            return said

        controller.instead = once
        next(iter(loader))
        controller.wait_for(lambda: _iteration(controller) >= 2)


@pytest.mark.parametrize(
    "instead",
    [
        pytest.param(lambda: (200, b"<html>"), id="garbage"),
        pytest.param(lambda: (200, b'{"score": 1, "level": "x", "mode": "y", "every": 0}'), id="0"),
        pytest.param(
            lambda: (200, b'{"score":1,"level":"x","mode":"y","stall_every_s":0}'), id="0 s"
        ),
        pytest.param(
            lambda: (200, b'{"score":1,"level":"x","mode":"y","quotas":{"hdd":-5}}'), id="negative"
        ),
        pytest.param(lambda: (200, b'{"score": 1e999}'), id="infinite"),
        pytest.param(lambda: refusal(401, "unauthorized"), id="wrong-token"),
        pytest.param(lambda: refusal(400, "bad-request"), id="refused"),
        pytest.param(lambda: refusal(500, "internal"), id="broken"),
        pytest.param(lambda: (404, b"no such page"), id="another-service"),
        pytest.param(lambda: None, id="closes"),
    ],
)
def test_a_controller_that_answers_nonsense_is_complained_of_once_and_disturbs_nobody(
    dataset: Path,
    controller: FakeController,
    instead: Callable[[], Said | None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.client.reporting.link.FIRST_DELAY_S", 0.01)
    controller.instead = instead
    with Loader(str(dataset), batch_size=BATCH) as plain:
        wanted = bytes_of(plain)
    with caplog.at_level(logging.WARNING), loading(dataset, controller) as loader:
        assert bytes_of(loader) == wanted
        controller.wait_for(lambda: controller.requests >= 2)
        control = loader.statistics().control
        assert control is not None
        assert control.away
        assert control.direct_bytes_per_s is None
    warned = [record for record in caplog.records if controller.address in record.getMessage()]
    assert len(warned) == 1
    assert "training goes on" in warned[0].getMessage()


def test_a_controller_that_hangs_holds_up_neither_steps_nor_the_end(
    dataset: Path, controller: FakeController
) -> None:
    controller.instead = controller.hang
    begin = time.monotonic()
    with loading(dataset, controller) as loader:
        steps = sum(1 for _ in loader)
        controller.wait_for(lambda: controller.requests >= 1)
    assert steps == len(loader)
    assert time.monotonic() - begin < HANGS_S / 2


def test_a_loader_starts_without_its_controller_and_meets_it_later(
    dataset: Path, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.reporting.link.FIRST_DELAY_S", 0.01)
    port = controller.port
    controller.close()
    with loading(dataset, f"http://127.0.0.1:{port}") as loader:
        for _ in loader:
            time.sleep(0.05)
        returned = FakeController(port)
        try:
            eventually(lambda: next(iter(loader)) and returned.reports)
            assert returned.announced[0].iteration >= len(loader) // 2
        finally:
            returned.close()


def test_quotas_stay_when_the_controller_goes(dataset: Path, controller: FakeController) -> None:
    controller.answer = HealthAnswer(score=50.0, level="tight", mode="none", quotas={"hdd": 5e8})
    with loading(dataset, controller) as loader:
        step_by_step(loader, controller, steps=1)
        controller.instead = lambda: None
        for _ in loader:
            time.sleep(0.01)
        control = loader.statistics().control
        assert control is not None
        assert control.direct_bytes_per_s == 5e8


def test_direct_reads_keep_to_the_quota_and_the_batches_stay_the_same(
    dataset: Path, controller: FakeController
) -> None:
    with Loader(str(dataset), batch_size=BATCH) as plain:
        total = int(plain.job.lengths(np.arange(len(plain.job.sources[0].index))).sum())
        wanted = bytes_of(plain)
    controller.answer = HealthAnswer(
        score=50.0, level="tight", mode="none", quotas={"hdd": total / 1.0}
    )
    with loading(dataset, controller, prefetch_steps=1) as loader:
        _wait_until_limited(loader)
        begin = time.monotonic()
        assert bytes_of(loader) == wanted
        took_s = time.monotonic() - begin
        throttled_s = loader.summary().counts.throttled_s
        controller.wait_for(lambda: any(r.throttled_share > 0 for r in controller.reports))
    assert 0.4 < took_s < 10
    assert throttled_s > 0.3


def test_a_step_that_is_long_in_coming_is_told_of_meanwhile(
    dataset: Path, controller: FakeController
) -> None:
    controller.answer = starved(stall_every_s=0.05)
    with loading(dataset, controller) as loader:
        _wait_until_limited(loader)
        trainer = threading.Thread(target=lambda: next(iter(loader)))
        trainer.start()
        controller.wait_for(lambda: len(controller.reports) >= 3)
        controller.answer = HealthAnswer(score=5.0, level="critical", mode="none")
        trainer.join(20)
        controller.wait_for(lambda: controller.reports[-1].throttled_share < 1)
    stalled = [report for report in controller.reports if report.throttled_share == 1]
    assert len(stalled) >= 2
    assert stalled[1].wait_s > stalled[0].wait_s > 0.04
    assert {report.queue_depth for report in stalled} == {0}
    iterations = [report.iteration for report in controller.reports]
    assert iterations == sorted(set(iterations))


def test_a_step_that_is_long_in_coming_is_told_of_as_seldom_as_the_controller_asks(
    dataset: Path, controller: FakeController
) -> None:
    controller.answer = starved(stall_every_s=1.3)
    with loading(dataset, controller) as loader:
        _wait_until_limited(loader)
        trainer = threading.Thread(target=lambda: next(iter(loader)))
        trainer.start()
        controller.wait_for(lambda: len(controller.reports) >= 2)
        controller.answer = starved(quotas={})
        trainer.join(20)
    first, second = controller.reports[:2]
    assert first.wait_s > 1.29
    assert second.wait_s - first.wait_s > 1.29


def test_a_step_that_the_quota_holds_up_for_long_is_told_people_once(
    dataset: Path,
    controller: FakeController,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reporting, "STALL_EVERY_S", 0.05)
    monkeypatch.setattr(reporting, "HELD_S", 0.3)
    controller.answer = starved(stall_every_s=0.05)
    with loading(dataset, controller) as loader:
        _wait_until_limited(loader)
        trainer = threading.Thread(target=lambda: next(iter(loader)))
        trainer.start()
        controller.wait_for(lambda: len(controller.reports) >= 12)
        controller.answer = starved(quotas={})
        trainer.join(20)
    (said,) = [message for message in caplog.messages if "quota" in message]
    assert "step 0 has not come" in said
    assert "headrace jobs" in said


def starved(**changes: Any) -> HealthAnswer:
    """An answer that lets hardly anything be read, unless told otherwise."""
    usual = {"score": 5.0, "level": "critical", "mode": "none", "quotas": {"hdd": 1.0}}
    return HealthAnswer(**{**usual, **changes})


def _wait_until_limited(loader: Loader) -> None:
    _wait_until_heard(loader, lambda control: control.direct_bytes_per_s is not None)


def _wait_until_heard(loader: Loader, holds: Callable[[ControlStatistics], bool]) -> None:
    def is_heard() -> bool:
        control = loader.statistics().control
        return control is not None and holds(control)

    eventually(is_heard)


def test_a_quota_of_nothing_does_not_hold_up_closing(
    dataset: Path, controller: FakeController
) -> None:
    controller.answer = HealthAnswer(score=5.0, level="critical", mode="none", quotas={"hdd": 0.0})
    with loading(dataset, controller) as loader:
        _wait_until_limited(loader)
        iter(loader)
        begin = time.monotonic()
    assert time.monotonic() - begin < 10


def test_two_ranks_of_a_host_report_as_one_and_share_its_quota(
    dataset: Path, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    controller.answer = HealthAnswer(score=50.0, level="tight", mode="none", quotas={"hdd": 4e8})
    with (
        loading(dataset, controller, rank=0, world=2) as first,
        loading(dataset, controller, rank=1, world=2) as second,
    ):
        for taken, _ in enumerate(zip(first, second, strict=True)):
            controller.wait_for(lambda taken=taken: _iteration(controller) >= taken)
        shares = [loader.statistics().control for loader in (first, second)]
    iterations = [report.iteration for report in controller.reports]
    assert iterations == sorted(set(iterations))
    assert controller.reports[-1].ranks == 2
    assert {told.hosts for told in controller.announced} == {1}
    assert {told.host for told in controller.announced} == {controller.reports[0].host}
    assert [share.speaks for share in shares if share] == [True, False]
    assert [share.direct_bytes_per_s for share in shares if share] == [2e8, 2e8]
    parts = [
        {
            int(loader.job.lengths(loader.job.schedule.shard(step, rank, 2).samples).sum())
            for step in range(len(first), len(first) + 8)
        }
        for rank, loader in enumerate((first, second))
    ]
    assert controller.reports[-1].next_bytes in {a + b for a in parts[0] for b in parts[1]}


def test_when_the_speaker_closes_another_rank_goes_on_and_the_job_does_not_end(
    dataset: Path, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with (
        loading(dataset, controller, rank=0, world=2) as first,
        loading(dataset, controller, rank=1, world=2) as second,
    ):
        for taken, _ in enumerate(zip(first, second, strict=True)):
            controller.wait_for(lambda taken=taken: _iteration(controller) >= taken)
        first.close()
        assert controller.left == []
        before = _iteration(controller)
        for _ in second:
            time.sleep(0.02)
        controller.wait_for(lambda: _iteration(controller) > before)
    assert {report.boot for report in controller.reports} == {controller.reports[0].boot}
    iterations = [report.iteration for report in controller.reports]
    assert iterations == sorted(set(iterations))
    assert len(controller.left) == 1


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("controller", "controller:7410", "controller address"),
        ("controller", 7410, "an address or None"),
        ("job_weight", 0, "job_weight"),
        ("job_weight", float("nan"), "job_weight"),
        ("job_title", None, "job_title"),
        ("job_title", "two\nlines", "job_title=.*256 printable"),
        ("job_title", "x" * 257, "job_title=.*256 printable"),
        ("storage_tier", 5, "a tier's name or None"),
        ("storage_tier", "", "printable"),
    ],
)
def test_a_wrong_option_is_refused_at_once(
    dataset: Path, option: str, value: object, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Loader(str(dataset), batch_size=BATCH, **{option: value})
