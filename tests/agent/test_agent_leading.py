"""Who finds out where a job's blocks lie, and what agents do with the map."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from client_for_tests import PLAIN, make_dataset

from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.leading import Leading
from headrace.agent.placing import PlacingLimits
from headrace.agent.registry import Registry
from headrace.agent.storages import SharedStorages
from headrace.core.errors import CallerError, ConfigError, StorageError
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.core.roster import RosterEntry
from headrace.dataset.index import Index
from headrace.policy.placement import leader
from headrace.storage.port import BlockPlace, Replica
from headrace.wire.messages import Fingerprint, JobPlaces, JobRoster, RegisterJob


class Store:
    """A store whose files lie on one node each."""

    url = "fake"

    def __init__(self, fails: str = "") -> None:
        self.asked = 0
        self.closed = False
        self.fails = fails

    def locations(self, path: str) -> Sequence[BlockPlace]:
        self.asked += 1
        if self.fails:
            raise StorageError(self.fails)
        node = f"n{int(path.partition('.')[0]) % 2}"
        return [BlockPlace(0, 1 << 20, (Replica(node, f"{node}:9866"),))]

    def close(self) -> None:
        self.closed = True


class Mute:
    """A store that cannot tell where files lie."""

    def close(self) -> None:
        """Do nothing."""


class Host:
    """An agent without workers or sockets."""

    def __init__(self, dataset: Path, store: Any, refresh_s: float = 60.0) -> None:
        config = AgentConfig(
            roots=(dataset.parent,), token="x" * 16, workers=0, name="me", hosts=("n0",)
        )
        index = Index.load(str(dataset))
        self.engine = Engine(config)
        self.registry = Registry(self.engine, config, unix_socket=None, weight=lambda: 7)
        self.storages = SharedStorages(lambda _: store)
        limits = PlacingLimits(asks_per_s=1e6, refresh_s=refresh_s)
        self.leading = Leading(self.engine, self.storages, limits)
        self.spec = JobSpec(
            sources=(SourceSpec(url=str(dataset), index_digest=index.digest, samples=len(index)),),
            schedule=ScheduleSpec(seed=3, batch_size=6),
            pipeline=PLAIN.to_json(),
        )

    async def register(self, *names: str, places: str = "") -> bool:
        message = RegisterJob(
            spec=self.spec,
            world=1,
            cuts={"image": 2},
            fingerprint=Fingerprint(versions={}, golden={}),
            roster=tuple(RosterEntry(name=name, hosts=("n0",)) for name in names),
            places=places,
        )
        return (await self.registry.register(self.spec.id, message)).needs_places

    def share(self, *names: str, places: str = "") -> bool:
        roster = tuple(RosterEntry(name=name, hosts=("n0",)) for name in names)
        answer = self.registry.share(self.spec.id, JobRoster(roster=roster, places=places))
        assert (answer.hosts, answer.weight) == (("n0",), 7)
        return answer.needs_places

    @property
    def newest(self) -> JobPlaces:
        return self.engine.jobs[self.spec.id].atlas.newest

    def is_beside(self, sample: int) -> bool | None:
        return self.engine.jobs[self.spec.id].plan.is_beside(sample)

    async def look_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(500):
            await self.leading.look()
            if condition():
                return
        raise AssertionError("it did not happen")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("led") / "photos")


def play(
    dataset: Path,
    scene: Callable[[Host], Awaitable[None]],
    store: Any = None,
    *,
    refresh_s: float = 60.0,
) -> Host:
    host = Host(dataset, store or Store(), refresh_s)

    async def run() -> None:
        try:
            await scene(host)
        finally:
            host.engine.close()
            host.registry.close()

    asyncio.run(run())
    return host


def test_the_only_agent_finds_out_where_every_file_lies(dataset: Path) -> None:
    store = Store()

    async def scene(host: Host) -> None:
        await host.register()
        await host.look_until(lambda: bool(host.newest.version))
        assert [node.host for node in host.newest.nodes] == ["n0", "n1"]
        assert store.asked == 24

    play(dataset, scene, store)


def test_an_agent_that_does_not_lead_asks_nothing_until_the_leader_is_gone(dataset: Path) -> None:
    store = Store()

    async def scene(host: Host) -> None:
        other = next(
            name for name in map(str, range(99)) if leader(host.spec.id, ["me", name]) == 1
        )
        await host.register("me", other)
        for _ in range(5):
            await host.leading.look()
        assert not store.asked
        host.share("me")
        await host.look_until(lambda: bool(host.newest.version))
        host.share("me", other)
        await host.leading.look()
        assert store.closed

    play(dataset, scene, store)


def test_a_job_that_is_removed_is_asked_for_no_more(dataset: Path) -> None:
    store = Store()

    async def scene(host: Host) -> None:
        await host.register()
        await host.leading.look()
        host.engine.remove_job(host.spec.id)
        await host.leading.look()
        assert store.closed

    play(dataset, scene, store)


@pytest.mark.parametrize(
    ("store", "said"), [(Store(fails="the NameNode is down"), "is down"), (Mute(), "cannot tell")]
)
def test_a_store_that_fails_or_cannot_tell_is_named_as_the_reason(
    dataset: Path, store: Any, said: str
) -> None:
    async def scene(host: Host) -> None:
        await host.register()
        await host.look_until(lambda: said in host.newest.reason)
        assert not host.newest.version

    play(dataset, scene, store)


def test_the_reason_goes_when_the_store_is_back(dataset: Path) -> None:
    store = Store()

    async def scene(host: Host) -> None:
        await host.register()
        await host.look_until(lambda: bool(host.newest.version))
        store.fails = "the NameNode is down"
        await host.look_until(lambda: "is down" in host.newest.reason)
        store.fails = ""
        await host.look_until(lambda: not host.newest.reason)
        assert host.newest.version

    play(dataset, scene, store, refresh_s=0.001)


def test_an_agent_asks_for_a_map_that_it_lacks_and_goes_by_it_from_then_on(dataset: Path) -> None:
    finder = Host(dataset, Store())

    async def find() -> None:
        await finder.register()
        await finder.look_until(lambda: bool(finder.newest.version))
        finder.engine.close()

    asyncio.run(find())
    places = finder.newest

    async def scene(host: Host) -> None:
        assert await host.register("me", places=places.version)
        assert host.is_beside(0) is None
        await host.registry.place(host.spec.id, places)
        assert not host.share("me", places=places.version)
        assert [host.is_beside(sample) for sample in range(4)] == [True, False, True, False]
        assert host.share("me", places="newer")
        assert host.is_beside(0), "the map it has is better than none"
        assert not host.share("me", places="")
        assert host.is_beside(0) is None

    play(dataset, scene, Mute())


def test_a_map_of_another_job_and_a_roster_of_twins_are_refused(dataset: Path) -> None:
    async def scene(host: Host) -> None:
        await host.register()
        with pytest.raises(CallerError, match="map of blocks"):
            await host.registry.place(host.spec.id, JobPlaces(version="x"))
        with pytest.raises(ConfigError, match="twice"):
            host.share("me", "me")
        with pytest.raises(ConfigError, match="none"):
            host.share()

    play(dataset, scene)


def test_another_rank_with_the_same_roster_changes_nothing(dataset: Path) -> None:
    async def scene(host: Host) -> None:
        await host.register("me", "you")
        plan = host.engine.jobs[host.spec.id].plan
        await host.register("me", "you")
        await host.register()
        host.share("me", "you")
        assert host.engine.jobs[host.spec.id].plan is plan
        host.share("me")
        assert host.engine.jobs[host.spec.id].plan is not plan

    play(dataset, scene)


def test_an_unknown_field_of_a_roster_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="wieght"):
        msgspec.json.decode(b'{"roster": [{"name": "a", "wieght": 2}]}', type=JobRoster)
