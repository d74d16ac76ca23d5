"""Readers ask the agents that keep a file ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from headrace.agent.local import LocalAgent
from headrace.client.checkpoint.agentranges import AgentRanges
from headrace.client.checkpoint.preloaded import REFRESH_S, Preloaded
from headrace.client.checkpoint.sharing import SharedFolder, ShareLimits
from headrace.core.clock import ManualClock
from headrace.storage.local import LocalStorage
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.ranges import Preload, WantedRange, drop_preload, put_preload

CONTENT = bytes(range(256)) * 4000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "step-1").mkdir()
    (folder / "step-1/hot").write_bytes(CONTENT)
    return folder


@pytest.fixture(scope="module")
def agents(folder: Path) -> Iterator[list[Endpoint]]:
    with ExitStack() as running:
        started = [
            running.enter_context(LocalAgent([folder], token="x" * 20, options=("--workers", "0")))
            for _ in range(2)
        ]
        yield [Endpoint(address=agent.address, token=agent.token) for agent in started]


AWAY = Endpoint(address="http://127.0.0.1:9")


def kept_bytes(agent: Endpoint) -> int:
    with closing(Connection(agent)) as connection:
        connection.send("GET", "/v1/statistics")
        ranges = msgspec.json.decode(connection.receive().read())["ranges"]
    return int(ranges["kept_bytes"])


@pytest.mark.parametrize("keeper", [0, 1])
def test_whoever_keeps_a_file_is_asked_for_it(
    folder: Path, agents: list[Endpoint], keeper: int
) -> None:
    whole = WantedRange(path="hot", offset=0, length=len(CONTENT))
    with closing(Connection(agents[keeper])) as connection:
        preload = Preload(url=f"{folder}/step-1", ranges=(whole,), lease_s=60)
        put_preload(connection, "hot", preload)
        before = kept_bytes(agents[keeper])
        for reader in range(5):
            ranges = AgentRanges(LocalStorage(folder), [*agents, AWAY], reader=str(reader))
            assert ranges.read("step-1/hot", 100, 1000) == CONTENT[100:1100]
            ranges.close()
        assert kept_bytes(agents[keeper]) - before == 5000
        drop_preload(connection, "hot")


def wait_for_keepers(preloaded: Preloaded, keepers: tuple[int, ...]) -> None:
    give_up_at = time.monotonic() + 10
    while preloaded.at("step-1/hot") != keepers:
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_what_is_kept_later_is_noticed(folder: Path, agents: list[Endpoint]) -> None:
    clock = ManualClock()
    preloaded = Preloaded(str(folder), [AWAY, agents[1]], clock)
    assert preloaded.at("step-1/hot") == ()
    with closing(Connection(agents[1])) as connection:
        one = WantedRange(path="step-1/hot", offset=0, length=10)
        put_preload(connection, "one", Preload(url=str(folder), ranges=(one,), lease_s=60))
        assert preloaded.at("step-1/hot") == ()
        clock.advance(REFRESH_S)
        wait_for_keepers(preloaded, (1,))
        assert preloaded.at("step-1/cold") == ()
        drop_preload(connection, "one")


def test_one_rank_of_a_host_asks_and_the_others_take_its_answer(
    folder: Path, agents: list[Endpoint], tmp_path: Path
) -> None:
    clock = ManualClock()
    memory = SharedFolder("load", ShareLimits(folder=str(tmp_path), keep_free=0))
    first, second = (Preloaded(str(folder), [AWAY, agents[0]], clock) for _ in range(2))
    for rank in (first, second):
        rank.share(memory)
    with closing(Connection(agents[0])) as connection:
        one = WantedRange(path="step-1/hot", offset=0, length=10)
        put_preload(connection, "one", Preload(url=str(folder), ranges=(one,), lease_s=60))
        wait_for_keepers(first, (1,))
        drop_preload(connection, "one")
        wait_for_keepers(second, (1,))  # what the agent would not say any more
        memory.leave()
        clock.advance(REFRESH_S)
        wait_for_keepers(second, ())  # asks for itself: the memory is gone
