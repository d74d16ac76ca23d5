"""The agent's link to the controller, which is there, or away in every way."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_for_tests import FakeController, Mood

from headrace.agent.config import AgentConfig
from headrace.agent.controlling import (
    LONGEST_RETRY_S,
    Controlling,
    HostLoad,
    controller_at,
)
from headrace.agent.engine import Engine
from headrace.agent.jobs import ServedJob
from headrace.agent.tiers import Tier
from headrace.core.errors import ConfigError
from headrace.wire.connection import Connection
from headrace.wire.control import AgentOrders, TierOffer
from headrace.wire.endpoint import Endpoint

TOKEN = "t" * 20
TIER = Tier(name="hdd", media="hdd", bytes_per_s=150e6)


@pytest.fixture
def controller() -> Iterator[FakeController]:
    with FakeController(TOKEN) as started:
        yield started


class Link:
    """An agent's engine without workers, and its link to a controller."""

    def __init__(self, root: Path, endpoint: Endpoint) -> None:
        config = AgentConfig(
            roots=(root,), token=TOKEN, workers=0, tiers=(TIER,), name="agent 1".replace(" ", "-"),
            controller=endpoint,
        )  # fmt: skip
        self.engine = Engine(config)
        self.caller = Connection(endpoint)
        self.controlling = Controlling(
            self.engine,
            config,
            address="http://here:1",
            load=lambda: HostLoad(cpu_share=0.25, transforming=True),
            caller=self.caller,
        )

    def exchange(self) -> float:
        return asyncio.run(self.controlling.exchange())


@pytest.fixture
def link(tmp_path: Path, controller: FakeController) -> Iterator[Link]:
    made = Link(tmp_path, controller_at(controller.address, TOKEN))
    yield made
    made.caller.close()


def test_it_announces_what_it_offers_then_reports_and_obeys(
    link: Link, controller: FakeController
) -> None:
    controller.order(job=5e6)
    assert link.exchange() == 0.05
    (announced,) = controller.announced
    assert announced.tiers == (TierOffer(tier="hdd", media="hdd", bytes_per_s=150e6),)
    assert (announced.boot, announced.enforced) == (link.engine.boot, {})
    assert link.engine.bandwidth.quotas() == {"job": {"hdd": 5e6}}

    link.engine.jobs["job"] = _a_job()
    link.engine.books.usage.count_read("job", "hdd", 700, queued_s=0.5, read_s=0.1)
    link.engine.books.usage.count_sent("job", 300, raw=True)
    link.exchange()
    link.exchange()
    first, second = controller.reports
    assert (first.sequence, second.sequence) == (0, 1)
    assert first.cpu_share == 0.25
    use = first.jobs["job"]
    assert (use.tiers["hdd"].nbytes, use.tiers["hdd"].queued_s, use.raw_bytes) == (700, 0.5, 300)
    assert use.enforced == {"hdd": 5e6}
    assert second.jobs["job"].tiers["hdd"].nbytes == 0


def test_what_a_lost_report_told_is_told_by_the_next(
    link: Link, controller: FakeController
) -> None:
    link.exchange()
    link.engine.books.usage.count_read("job", "hdd", 700, queued_s=0.0, read_s=0.1)
    controller.mood = "failing"
    link.exchange()
    controller.mood = "well"
    link.exchange()
    link.engine.books.usage.count_read("job", "hdd", 11, queued_s=0.0, read_s=0.1)
    link.exchange()
    assert controller.reports[-1].jobs["job"].tiers["hdd"].nbytes == 711


def test_a_quota_that_is_no_longer_named_is_lifted(link: Link, controller: FakeController) -> None:
    controller.order(job=5e6)
    link.exchange()
    controller.order()
    link.exchange()
    assert link.engine.bandwidth.quotas() == {}


def test_jobs_to_be_reordered_are_passed_on(link: Link, controller: FakeController) -> None:
    controller.orders = AgentOrders(reorder=("a", "b"), every_s=1.0)
    link.exchange()
    assert link.engine.reordered == {"a", "b"}
    controller.orders = AgentOrders(reorder=None, every_s=1.0)
    link.exchange()
    assert link.engine.reordered == {"a", "b"}
    controller.orders = AgentOrders(every_s=1.0)
    link.exchange()
    assert link.engine.reordered == set()


@pytest.mark.parametrize("mood", ["garbage", "failing", "strange", "refusing"])
def test_a_controller_that_talks_nonsense_changes_nothing_and_is_told_of_once(
    link: Link, controller: FakeController, mood: Mood, caplog: pytest.LogCaptureFixture
) -> None:
    controller.order(job=5e6)
    link.exchange()
    controller.mood = mood
    with caplog.at_level(logging.WARNING):
        pauses = [link.exchange() for _ in range(4)]
    assert link.engine.bandwidth.quotas() == {"job": {"hdd": 5e6}}
    assert link.controlling.away
    assert len(caplog.records) == 1
    assert "quotas stay as they are" in caplog.records[0].message
    assert all(pause <= LONGEST_RETRY_S for pause in pauses)
    controller.mood = "well"
    assert link.exchange() == 0.05
    assert not link.controlling.away
    assert controller.announced[-1].enforced == {"job": {"hdd": 5e6}}


def test_a_controller_that_is_gone_changes_nothing_and_is_tried_ever_less_often(
    link: Link, controller: FakeController
) -> None:
    controller.order(job=5e6)
    link.exchange()
    controller.stop()
    pauses = [link.exchange() for _ in range(8)]
    assert link.engine.bandwidth.quotas() == {"job": {"hdd": 5e6}}
    assert pauses[0] <= 0.5 < LONGEST_RETRY_S / 2 <= pauses[-1] <= LONGEST_RETRY_S
    controller.start_again()
    controller.order(job=6e6)
    link.exchange()
    assert controller.announced[-1].enforced == {"job": {"hdd": 5e6}}
    assert link.engine.bandwidth.quotas() == {"job": {"hdd": 6e6}}


def test_one_that_restarted_is_told_at_once_what_is_in_force(
    link: Link, controller: FakeController
) -> None:
    controller.order(job=5e6)
    link.exchange()
    controller.announced.clear()
    controller.mood = "forgetful"
    link.exchange()
    assert [announced.enforced for announced in controller.announced] == [{"job": {"hdd": 5e6}}]


def test_a_wrong_token_is_told_and_nothing_is_limited(
    tmp_path: Path, controller: FakeController
) -> None:
    link = Link(tmp_path, controller_at(controller.address, "w" * 20))
    controller.order(job=5e6)
    link.exchange()
    link.caller.close()
    assert "it is wrong" in link.controlling.away
    assert link.engine.bandwidth.quotas() == {}


def test_one_that_is_frozen_is_given_up_in_time_and_quotas_stay(
    tmp_path: Path, controller: FakeController
) -> None:
    endpoint = Endpoint(
        address=controller.address, token=TOKEN, read_timeout_s=0.2, service="controller"
    )
    link = Link(tmp_path, endpoint)
    controller.order(job=5e6)
    link.exchange()
    controller.mood = "frozen"
    begin = time.monotonic()
    link.exchange()
    assert time.monotonic() - begin < 20
    assert "no answer in time" in link.controlling.away
    assert link.engine.bandwidth.quotas() == {"job": {"hdd": 5e6}}
    link.caller.close()


@pytest.mark.parametrize("error", [ConfigError("the CA file is gone"), OSError("no sockets left")])
def test_whatever_fails_on_the_way_to_the_controller_is_told_once_and_tried_again(
    link: Link,
    controller: FakeController,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller.order(job=5e6)
    link.exchange()

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as failing, caplog.at_level(logging.WARNING):
        failing.setattr(link.caller, "call", fail)
        pauses = [link.exchange() for _ in range(4)]
    assert link.controlling.away == str(error)
    assert len(caplog.records) == 1
    assert all(pause <= LONGEST_RETRY_S for pause in pauses)
    assert link.engine.bandwidth.quotas() == {"job": {"hdd": 5e6}}
    link.exchange()
    assert not link.controlling.away


def test_it_reports_until_it_ends_and_says_that_it_does(
    link: Link, controller: FakeController
) -> None:
    async def play() -> None:
        running = asyncio.ensure_future(link.controlling.run())
        await _eventually(lambda: len(controller.reports) >= 3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(play())
    assert controller.left == 1


def test_one_that_ends_in_the_middle_of_a_report_says_so_after_it(
    link: Link, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, reporting = link.caller.call, threading.Event()

    def call_slowly(method: str, *given: Any) -> Any:
        if method == "POST":
            reporting.set()
            time.sleep(0.2)
        return call(method, *given)

    monkeypatch.setattr(link.caller, "call", call_slowly)

    async def play() -> None:
        running = asyncio.ensure_future(link.controlling.run())
        await _eventually(reporting.is_set)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(play())
    assert controller.left == 1


def test_an_agent_that_ends_does_not_wait_for_a_controller_that_is_frozen(
    link: Link, controller: FakeController
) -> None:
    async def play() -> float:
        running = asyncio.ensure_future(link.controlling.run())
        await _eventually(lambda: len(controller.reports) >= 1)
        controller.mood = "frozen"
        await asyncio.sleep(0.2)
        begin = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.monotonic() - begin

    assert asyncio.run(play()) < 4.0  # an answer is waited for longer
    assert controller.left == 0


def _a_job() -> ServedJob:
    return ServedJob.__new__(ServedJob)


async def _eventually(question: Callable[[], bool], timeout_s: float = 20.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not question():
            await asyncio.sleep(0.01)
