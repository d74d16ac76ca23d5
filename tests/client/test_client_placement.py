"""Ranks and agents agree on who makes what; where they do not, batches are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fake_agent as fake
import msgspec
import pytest
from epochs import digests, epoch, loading
from fake_agent import FakeAgent, faking

from headrace import Loader, Pipeline
from headrace.core.errors import ConfigError, NotFoundError
from headrace.dataset.extents import indexed_files
from headrace.dataset.index import Index
from headrace.policy.placement import leader
from headrace.prepare.places import places_of
from headrace.storage.port import BlockPlace, Replica
from headrace.wire.messages import JobPlaces, JobRoster
from waiting import eventually

WHOLE_FILE = 1 << 20


@pytest.fixture(scope="module")
def expected(dataset: Path, pipeline: Pipeline) -> list[str]:
    return epoch(dataset, pipeline=pipeline)


def map_of(dataset: Path, *nodes: str) -> JobPlaces:
    """A map in which the nodes hold one file after another in turn."""
    files = indexed_files(Index.load(str(dataset)))
    return places_of(
        [
            [
                [BlockPlace(0, WHOLE_FILE, (Replica(node, f"{node}:9866"),))]
                for node in (nodes[number % len(nodes)] for number in range(len(files)))
            ]
        ]
    )


def trio() -> list[FakeAgent]:
    agents = [FakeAgent(name, fake.honest) for name in ("one", "two", "three")]
    for agent in agents:
        agent.hosts = (f"beside-{agent.name}",)
    return agents


def leading(job: str, agents: list[FakeAgent]) -> FakeAgent:
    return agents[leader(job, [agent.name for agent in agents])]


def asked(agent: FakeAgent) -> set[int]:
    return {sample for fetch in agent.fetches for sample in fetch.samples}


def test_samples_are_asked_of_the_agents_beside_them_once_the_map_is_known(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    agents = trio()
    with (
        faking(*agents) as addresses,
        loading(dataset, pipeline=pipeline, agents=addresses) as loader,
    ):
        places = map_of(dataset, "beside-one", "beside-two")
        leading(loader.job.spec.id, agents).newest = places
        eventually(lambda: all(agent.told[-1].places == places.version for agent in agents))
        eventually(lambda: sum(agent.maps == {places.version: places} for agent in agents) >= 2)
        assert digests(loader) == expected
        assert loader.summary().counts.beside == 24
    assert len(asked(agents[0])) == len(asked(agents[1])) == 12
    assert not asked(agents[2])


def test_when_the_agent_that_finds_out_the_map_dies_another_one_is_asked(
    dataset: Path, pipeline: Pipeline
) -> None:
    agents = trio()
    with (
        faking(*agents) as addresses,
        loading(dataset, pipeline=pipeline, agents=addresses, prefetch_steps=1) as loader,
    ):
        job, fleet = loader.job.spec.id, loader._machinery._fleet
        first, second = map_of(dataset, "beside-one"), map_of(dataset, "beside-two")
        dying = leading(job, agents)
        dying.newest = first
        eventually(lambda: fleet.standing.where is not None)
        left = [agent for agent in agents if agent is not dying]
        eventually(lambda: all(first.version in agent.maps for agent in left))
        leading(job, left).newest = second
        dying.close()
        eventually(lambda: fleet.standing.where.version == second.version)
        eventually(lambda: all(agent.told[-1].places == second.version for agent in left))
        names = {entry.name for entry in left[0].told[-1].roster}
        assert names == {agent.name for agent in left}


def test_a_changed_weight_reaches_all_agents_and_moves_samples(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    agents = trio()
    for agent in agents:
        agent.weight = 1000
    with (
        faking(*agents) as addresses,
        loading(dataset, pipeline=pipeline, agents=addresses) as loader,
    ):
        agents[0].weight = 1
        eventually(lambda: all(_weights(agent).get("one") == 1 for agent in agents))
        assert digests(loader) == expected
        weights = {agent.name: agent.weight for agent in loader.statistics().background.agents}
    assert weights == {"one": 1, "two": 1000, "three": 1000}
    assert len(asked(agents[0])) <= 2


def _weights(agent: FakeAgent) -> dict[str, int]:
    return {entry.name: entry.weight for entry in agent.told[-1].roster}


def test_other_ranks_go_by_what_the_first_one_told_and_tell_nothing_afterwards(
    dataset: Path, pipeline: Pipeline
) -> None:
    agents = trio()
    with (
        faking(*agents) as addresses,
        loading(dataset, pipeline=pipeline, agents=addresses, rank=1, world=2) as loader,
    ):
        fleet = loader._machinery._fleet
        told = [len(agent.told) for agent in agents]
        places = map_of(dataset, "beside-two")
        for agent in agents:
            entries = [msgspec.structs.replace(entry, weight=77) for entry in agent.told[-1].roster]
            agent.told[-1] = JobRoster(roster=tuple(entries), places=places.version)
            agent.take_map(places)
        eventually(lambda: fleet.standing.where is not None)
        assert {member.weight for member in fleet.members} == {77}
        assert fleet.standing.where.version == places.version
        assert [len(agent.told) for agent in agents] == told


def test_of_two_agents_with_one_name_one_is_asked_and_the_other_is_named(
    dataset: Path, pipeline: Pipeline, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    twins = FakeAgent("twin", fake.honest), FakeAgent("twin", fake.honest)
    with (
        faking(*twins) as addresses,
        loading(dataset, pipeline=pipeline, agents=addresses) as loader,
    ):
        assert digests(loader) == expected
    assert sum(bool(twin.fetches) for twin in twins) == 1
    assert "give each its own --name" in caplog.text


def test_a_map_of_another_job_is_not_used(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    agent = FakeAgent("one", fake.honest)
    agent.newest = places_of([[[BlockPlace(0, 1, (Replica("n", "n:1"),))]]])
    with (
        faking(agent) as addresses,
        loading(dataset, pipeline=pipeline, agents=addresses) as loader,
    ):
        assert digests(loader) == expected
        assert loader.statistics().background.agents[0].state == "up"


# The file that lists agents


def listed(*agents: FakeAgent, more: str = "") -> str:
    tables = [f'[[agent]]\naddress = "{agent.address}"\n{more}' for agent in agents]
    return "\n".join(tables)


@contextmanager
def from_file(
    tmp_path: Path, dataset: Path, pipeline: Pipeline, *agents: FakeAgent, more: str = ""
) -> Iterator[tuple[Path, Loader]]:
    file = tmp_path / "agents.toml"
    file.write_text(listed(*agents, more=more))
    with loading(dataset, pipeline=pipeline, agents=str(file), prefetch_steps=1) as loader:
        yield file, loader


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.fleet.LOOK_S", 0.1)


@pytest.mark.usefixtures("looks_often")
def test_agents_come_and_go_while_a_job_runs(
    tmp_path: Path, dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    one, two = FakeAgent("one", fake.honest), FakeAgent("two", fake.honest)
    with faking(one, two), from_file(tmp_path, dataset, pipeline, one) as (file, loader):
        fleet = loader._machinery._fleet
        assert [member.name for member in fleet.members] == ["one"]
        file.write_text(listed(one, two))
        eventually(lambda: [member.name for member in fleet.members] == ["one", "two"])
        eventually(lambda: len(one.told[-1].roster) == 2)
        file.write_text(listed(two))
        eventually(lambda: [member.name for member in fleet.members] == ["two"])
        assert digests(loader) == expected
        assert asked(two) and not asked(one)


@pytest.mark.usefixtures("looks_often")
def test_a_file_that_is_broken_for_a_while_changes_nothing(
    tmp_path: Path, dataset: Path, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    one = FakeAgent("one", fake.honest)
    with faking(one), from_file(tmp_path, dataset, pipeline, one) as (file, loader):
        file.write_text("[[agent]\n")
        eventually(lambda: "going on with the agents known so far" in caplog.text)
        file.unlink()
        eventually(lambda: caplog.text.count("going on with the agents known so far") >= 2)
        assert [member.name for member in loader._machinery._fleet.members] == ["one"]


def test_a_file_may_name_the_storage_nodes_beside_an_agent(
    tmp_path: Path, dataset: Path, pipeline: Pipeline
) -> None:
    one = FakeAgent("one", fake.honest)
    one.hosts = ("said",)
    more = 'host = ["10.0.0.1", "said"]\n'
    with faking(one), from_file(tmp_path, dataset, pipeline, one, more=more) as (_, loader):
        (member,) = loader._machinery._fleet.members
        assert member.hosts == ("said", "10.0.0.1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents = []", "did you mean 'agent'"),
        ('[[agent]]\nadress = "http://a:1"', "did you mean 'address'"),
        ("[[agent]]\naddress = 5", "needs address"),
        ('[[agent]]\nhost = "x"', "needs address"),
        ('[[agent]]\naddress = "ftp://a"', "not of the form"),
        ('[[agent]]\naddress = "http://a:1"\nhost = [3]', "names of hosts"),
        ('[[agent]]\naddress = "http://a:1"\n[[agent]]\naddress = "http://a:1"', "twice"),
        ("agent = 3", r"write one \[\[agent\]\]"),
        ("[[agent", "not TOML"),
        ("agent = " + 9999 * "[", "not TOML"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_when_a_loader_is_made(
    tmp_path: Path, dataset: Path, text: str, said: str
) -> None:
    (tmp_path / "agents.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        Loader(dataset, batch_size=6, agents=str(tmp_path / "agents.toml"))


def test_a_file_that_is_not_there_is_said(tmp_path: Path, dataset: Path) -> None:
    with pytest.raises(NotFoundError, match=r"agents\.toml"):
        Loader(dataset, batch_size=6, agents=tmp_path / "agents.toml")


def test_a_file_that_names_no_agent_yet_lets_a_loader_begin_alone(
    tmp_path: Path, dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    with from_file(tmp_path, dataset, pipeline) as (_, loader):
        assert digests(loader) == expected
        assert loader.summary().counts.local == 24
