"""Agents send chunks where there are any, within the budget; what one does not do others do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from roots_for_tests import (
    content,
    replicating,
    save_checkpoint,
    state_of,
    wait_over,
    wanted,
)

from headrace.agent.local import LocalAgent
from headrace.controller.replicating.agents import AgentPool
from headrace.core.clock import ManualClock
from headrace.core.errors import AgentUnavailableError, RefusedError
from headrace.wire.auth import new_token
from headrace.wire.replication import SignalSent
from waiting import eventually

TOKEN = new_token()
TWO = {"a": "http://127.0.0.1:1", "b": "http://127.0.0.1:2"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agents")


@pytest.fixture(scope="module")
def agents(place: Path) -> Iterator[list[LocalAgent]]:
    """Two agents that may copy below one place, and one that is of no use there."""
    (place / "elsewhere").mkdir()
    with ExitStack() as running:
        yield [
            running.enter_context(LocalAgent([root], token=TOKEN, options=["--workers", "1"]))
            for root in (place, place, place / "elsewhere")
        ]


@pytest.fixture
def roots(place: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    own = place / request.node.name
    for name in ("source", "destination"):
        (own / name).mkdir(parents=True)
    return own / "source", own / "destination"


def pool(agents: list[LocalAgent]) -> AgentPool:
    return AgentPool(lambda: {agent.name: agent.address for agent in agents}, TOKEN)


def test_agents_send_within_the_budget_and_urgent_ones_first(
    agents: list[LocalAgent], roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_here(*_: object, **__: object) -> None:
        raise AssertionError("a chunk was sent by this process")

    monkeypatch.setattr("headrace.controller.replicating.crew.copy_group", not_here)
    source, destination = roots
    rate = 24 << 20
    save_checkpoint(source, 100, shards=3, nbytes=60 << 20)
    with replicating(bytes_per_s=rate, agents=pool(agents)) as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: any(one.sent_bytes for one in running.view("r").checkpoints))
        began = time.monotonic()
        folder = save_checkpoint(source, 200, shards=2, nbytes=4 << 20)
        running.signal(SignalSent(kind="loss_spike", step=200))
        eventually((destination / folder.name / "trainer_state.json").exists)
        took_s = time.monotonic() - began
        assert state_of(running.view("r"), 100)[0] != "published"
    assert content(destination / folder.name) == content(folder)
    assert took_s >= (8 << 20) / rate


def test_what_an_agent_that_dies_had_begun_others_do(
    agents: list[LocalAgent], roots: tuple[Path, Path]
) -> None:
    source, destination = roots
    folder = save_checkpoint(source, 100, shards=4, nbytes=15 << 20)
    with (
        LocalAgent([roots[0].parent], token=TOKEN, options=["--workers", "1"]) as dying,
        replicating(bytes_per_s=30 << 20, agents=pool([dying])) as running,
    ):
        running.begin("r", wanted(source, destination, once=True))
        eventually(lambda: any(one.sent_bytes for one in running.view("r").checkpoints))
        os.kill(dying.ready.pid, signal.SIGKILL)
        view = wait_over(running, "r", 40.0)
    assert state_of(view, 100)[0] == "published"
    assert content(destination / folder.name) == content(folder)


def test_one_that_failed_is_left_alone_for_a_while() -> None:
    clock = ManualClock()
    known = AgentPool(lambda: TWO, "t", clock=clock)

    def hired(*but: str) -> str | None:
        with known.hired("r", set(but)) as agent:
            return agent

    assert (hired(), hired("a"), hired("a", "b")) == ("a", "b", None)
    known.avoid("a", "r", AgentUnavailableError("busy"))
    known.avoid("b", "r", RefusedError("outside its roots", code="outside-roots"))
    assert hired() is None
    clock.advance(10.0)
    assert hired() == "a"
    clock.advance(290.0)
    assert hired("a") == "b"


def test_the_least_busy_is_hired() -> None:
    known = AgentPool(lambda: TWO, "t")
    with known.hired("r", set()) as first, known.hired("r", set()) as second:
        assert {first, second} == {"a", "b"}
