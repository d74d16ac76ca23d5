"""Checkpoints are read through agents where these help, and directly where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed.checkpoint as dcp
from training_state import blank_state, random_state, same

from headrace.agent.local import LocalAgent
from headrace.client.checkpoint.agentranges import AgentRanges, agents_of
from headrace.core.clock import ManualClock
from headrace.core.errors import ConfigError, NotFoundError, StorageError
from headrace.storage.local import LocalStorage
from headrace.torch import CheckpointReader
from headrace.wire.endpoint import Endpoint

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")

CONTENT = bytes(range(256)) * 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "file").write_bytes(CONTENT)
    dcp.save(random_state(), checkpoint_id=folder / "it", no_dist=True)
    return folder


@pytest.fixture(scope="module")
def agent(folder: Path) -> Iterator[LocalAgent]:
    with LocalAgent([folder], options=("--workers", "0", "--cpu-threshold", "1")) as started:
        yield started


def endpoint(agent: LocalAgent) -> Endpoint:
    return Endpoint(address=agent.address, token=agent.token)


AWAY = Endpoint(address="http://127.0.0.1:9", connect_timeout_s=1.0)


def test_ranges_come_through_an_agent(folder: Path, agent: LocalAgent) -> None:
    ranges = AgentRanges(LocalStorage(folder), [endpoint(agent)], reader="me")
    assert ranges.read("file", 1000, 500) == CONTENT[1000:1500]
    assert ranges.read("file", 0, 0) == b""
    assert ranges.statistics().agent_bytes == 500
    assert ranges.statistics().direct_requests == 1
    ranges.close()


def test_ranges_are_read_directly_where_an_agent_is_away_and_it_is_not_asked_at_once_again(
    folder: Path, agent: LocalAgent
) -> None:
    clock = ManualClock()
    ranges = AgentRanges(LocalStorage(folder), [AWAY], reader="me", clock=clock)
    asked = []
    read = ranges._agents[0]._connection
    ranges._agents[0]._connection = lambda: asked.append(1) or read()  # type: ignore[method-assign]
    for _ in range(3):
        assert ranges.read("file", 1000, 500) == CONTENT[1000:1500]
    assert len(asked) == 1
    clock.advance(60)
    ranges.read("file", 1000, 500)
    assert len(asked) == 2
    assert ranges.statistics().direct_requests == 4


def test_the_next_agent_is_asked_where_one_is_away(folder: Path, agent: LocalAgent) -> None:
    ranges = AgentRanges(LocalStorage(folder), [AWAY, endpoint(agent)], reader="me")
    for offset in range(0, 5000, 500):
        assert ranges.read("file", offset, 500) == CONTENT[offset : offset + 500]
    assert ranges.statistics().agent_requests == 10
    ranges.close()


def test_what_an_agent_may_not_serve_is_read_directly(tmp_path: Path, agent: LocalAgent) -> None:
    (tmp_path / "file").write_bytes(b"not served by the agent")
    ranges = AgentRanges(LocalStorage(tmp_path), [endpoint(agent)], reader="me")
    assert ranges.read("file", 0, 3) == b"not"
    assert ranges.statistics().direct_requests == 1
    ranges.close()


def test_errors_are_those_of_the_store(folder: Path, agent: LocalAgent) -> None:
    ranges = AgentRanges(LocalStorage(folder), [endpoint(agent)], reader="me")
    with pytest.raises(NotFoundError, match="no such file"):
        ranges.read("none", 0, 10)
    with pytest.raises(StorageError, match=str(len(CONTENT))):
        ranges.read("file", len(CONTENT), 10)
    ranges.close()


def test_readers_spread_over_the_agents_that_serve_a_block(folder: Path) -> None:
    agents = [Endpoint(address=f"http://127.0.0.1:{port}") for port in range(1, 11)]
    first = []
    for reader in range(40):
        ranges = AgentRanges(LocalStorage(folder), agents, reader=str(reader), copies=3)
        order = ranges._order("file", 0)
        assert len(order) == 3
        first.append(order[0]._endpoint.address)
    counts = [first.count(address) for address in set(first)]
    assert len(counts) == 3
    assert min(counts) > 4


def test_a_checkpoint_is_loaded_through_an_agent(
    folder: Path, agent: LocalAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = tmp_path / "agents.toml"
    registry.write_text(f'[[agent]]\naddress = "{agent.address}"\n')
    monkeypatch.setenv("HEADRACE_TOKEN", agent.token)
    loaded = blank_state()
    reader = CheckpointReader(folder / "it", agents=str(registry))
    monkeypatch.setattr(LocalStorage, "read", None)
    dcp.load(loaded, storage_reader=reader, no_dist=True)
    assert same(loaded, random_state())
    assert reader.statistics().agent_bytes >= reader.statistics().fetch.read_bytes > 0
    reader.close()


def test_a_checkpoint_is_loaded_without_the_agent_that_is_named(folder: Path) -> None:
    loaded = blank_state()
    reader = CheckpointReader(folder / "it", agents=AWAY.address)
    dcp.load(loaded, storage_reader=reader, no_dist=True)
    assert same(loaded, random_state())
    reader.close()


def test_agents_are_named_as_for_a_loader() -> None:
    assert agents_of((), token=None, ca_file=None) == ()
    (one,) = agents_of("http://a:1", token="t", ca_file=None)
    assert (one.address, one.token) == ("http://a:1", "t")
    assert len(agents_of(["http://a:1", "http://b:1"], token=None, ca_file=None)) == 2
    with pytest.raises(ConfigError):
        agents_of("nonsense", token=None, ca_file=None)
