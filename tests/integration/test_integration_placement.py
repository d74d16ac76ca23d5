"""Trainers and agents place samples alike, beside their bytes, also when these move."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Loader, Pipeline
from headrace.agent.local import LocalAgent
from headrace.agent.placing import Finder, LocatedSource, PlacingLimits
from headrace.agent.plan import AgentPlan
from headrace.client.member import Member
from headrace.client.shares import Standing, pieces_of_keys, shares_of
from headrace.core.draws import SampleKey
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec, Tail
from headrace.core.roster import RosterEntry
from headrace.dataset.index import Index, IndexMeta
from headrace.dataset.location import Member as FieldMember
from headrace.dataset.location import SampleLocation
from headrace.dataset.rows import RowBuilder
from headrace.devhdfs.cluster import Cluster
from headrace.prepare.job import OpenJob, OpenSource
from headrace.prepare.places import Whereabouts, places_of
from headrace.storage.hdfs import HdfsStorage
from headrace.storage.port import BlockPlace, Locates, Replica
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.messages import Fingerprint, JobRegistered, JobRoster, RegisterJob
from integration.agents import agent_statistics, wait_until_proven
from integration.test_integration_hdfs import upload
from integration.test_integration_same_bytes import batch_digest
from waiting import eventually

NODES = "abcd"
STEPS = 3
TOKEN = "placement-of-tests"


# Both sides


def made_up_job(seed: int, sources: int, batch: int, tail: Tail) -> OpenJob:
    """A job over samples that are nowhere: pictures, and a few long clips."""
    rng = np.random.default_rng(seed)
    indexes = [_index(rng, int(rng.integers(batch, 80))) for _ in range(sources)]
    specs = tuple(
        SourceSpec(url=f"/{n}", index_digest=index.digest, samples=len(index), weight=1.0 + n)
        for n, index in enumerate(indexes)
    )
    spec = JobSpec(
        sources=specs,
        schedule=ScheduleSpec(seed=seed, batch_size=batch, tail=tail),
        pipeline=Pipeline([]).to_json(),
    )
    return OpenJob(spec, [OpenSource(index=index, reader=None) for index in indexes])


def _index(rng: np.random.Generator, count: int) -> Index:
    builder = RowBuilder()
    for number in range(count):
        video = rng.random() < 0.1
        member = FieldMember(field="video", name="mp4", offset=100 * number, length=100)
        builder.append(
            SampleLocation(
                key=str(number),
                kind="video" if video else "image",
                container="tar",
                file="x.tar",
                file_size=100 * count,
                file_version="1",
                offset=100 * number,
                length=100,
                members=(member,),
                cost_s=5.0 if video else rng.random() / 100,
            )
        )
    return Index(builder.finish(), IndexMeta())


def made_up_places(seed: int, job: OpenJob) -> Whereabouts:
    rng = np.random.default_rng(seed)

    def held(offset: int) -> BlockPlace:
        nodes = rng.choice(list(NODES), 2, replace=False).tolist()
        return BlockPlace(offset, 700, tuple(Replica(node, f"{node}:1") for node in nodes))

    blocks = [[[held(offset) for offset in range(0, 8000, 700)]] for _ in job.sources]
    return Whereabouts(places_of(blocks), job)


ENTRIES = st.builds(
    lambda name, hosts, weight: RosterEntry(name=name, hosts=tuple(hosts), weight=weight),
    st.text("abcdefgh", min_size=1, max_size=3),
    st.sets(st.sampled_from(NODES), max_size=2),
    st.integers(1, 64),
)


@settings(deadline=None, max_examples=60)
@given(
    roster=st.lists(ENTRIES, min_size=1, max_size=6, unique_by=lambda entry: entry.name),
    seed=st.integers(0, 2**31),
    sources=st.integers(1, 3),
    batch=st.integers(1, 40),
    world=st.integers(1, 4),
    tail=st.sampled_from(["drop", "short", "pad"]),
    mapped=st.booleans(),
)
def test_every_sample_that_a_rank_asks_an_agent_for_is_one_that_the_agent_planned(
    roster: list[RosterEntry],
    seed: int,
    sources: int,
    batch: int,
    world: int,
    tail: Tail,
    mapped: bool,
) -> None:
    job = made_up_job(seed, sources, batch, tail)
    where = made_up_places(seed, job) if mapped else None
    message = RegisterJob(
        spec=job.spec,
        world=world,
        cuts={"image": 0, "video": 0},
        fingerprint=Fingerprint(versions={}, golden={}),
        roster=tuple(reversed(roster)),
    )
    standing = Standing.of([_member(entry) for entry in roster], where)
    for step in range(STEPS):
        asked = _asked(job, step, world, standing)
        for entry in roster:
            plan = AgentPlan(job, message, entry.name, where)
            planned = {(item.sample, item.epoch) for item in plan.due(step)}
            assert planned == asked.get(entry.name, set())


def _asked(
    job: OpenJob, step: int, world: int, standing: Standing
) -> dict[str, set[tuple[int, int]]]:
    asked: dict[str, set[tuple[int, int]]] = {}
    for rank in range(world):
        shard = job.schedule.shard(step, rank, world)
        visits = zip(shard.samples.tolist(), shard.epochs.tolist(), strict=True)
        keys = [SampleKey(job.spec.schedule.seed, epoch, sample) for sample, epoch in visits]
        for share in shares_of(job, step, pieces_of_keys(job, keys, {}), standing, {}):
            visits_of_one = {(key.sample, key.epoch) for key, *_ in share.pieces}
            asked.setdefault(share.member.name, set()).update(visits_of_one)
    return asked


def _member(entry: RosterEntry) -> Member:
    endpoint = Endpoint(address="http://127.0.0.1:9")
    return Member(
        endpoint=endpoint, name=entry.name, boot="", hosts=entry.hosts, weight=entry.weight
    )


def test_agents_that_were_told_otherwise_make_what_they_are_asked_for(
    dataset: Path, pipeline: Pipeline
) -> None:
    """Two agents believe that all samples are the first one's: the other one makes its own too."""
    options = ("--workers", "1", "--memory", "128MiB", "--cpu-threshold", "1")
    with ExitStack() as running:
        agents = [
            running.enter_context(LocalAgent([dataset], name=name, token=TOKEN, options=options))
            for name in ("first", "second")
        ]
        with Loader(dataset, pipeline=pipeline, batch_size=8, seed=5) as loader:
            expected = [batch_digest(batch) for batch in loader]
        with Loader(
            dataset, pipeline=pipeline, batch_size=8, seed=5, patience_s=30,
            agents=[agent.address for agent in agents], token=TOKEN, require_agents=True,
        ) as loader:  # fmt: skip
            for agent in agents:
                wait_until_proven(agent)
                _tell(agent, loader.job.spec.id, "first")
            assert [batch_digest(batch) for batch in loader] == expected
        made = [agent_statistics(agent)["counts"].get("finished", 0) for agent in agents]
    assert all(made)


def _tell(agent: LocalAgent, job: str, *names: str) -> JobRegistered:
    connection = Connection(Endpoint(address=agent.address, token=agent.token))
    try:
        roster = JobRoster(roster=tuple(RosterEntry(name=name) for name in names))
        return connection.call("PUT", f"/v1/jobs/{job}/roster", JobRegistered, roster)
    finally:
        connection.close()


# Real HDFS


@pytest.mark.timeout(300)
def test_agents_prepare_what_lies_on_the_datanodes_beside_them(
    hdfs: Cluster, dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.config_dir))
    url = upload(dataset, hdfs)
    with Loader(url, pipeline=pipeline, batch_size=8, seed=5, workers=2) as loader:
        expected = [batch_digest(batch) for batch in loader]
    with ExitStack() as running:
        agents = [
            running.enter_context(_agent_beside(hdfs, number, dataset)) for number in range(2)
        ]
        with Loader(
            url, pipeline=pipeline, batch_size=8, seed=5, patience_s=30, workers=2,
            agents=[agent.address for agent in agents], token=TOKEN, require_agents=True,
        ) as loader:  # fmt: skip
            for agent in agents:
                wait_until_proven(agent)
            fleet = loader._machinery._fleet
            eventually(lambda: fleet.standing.where is not None)
            before = [agent_statistics(agent) for agent in agents]
            assert [batch_digest(batch) for batch in loader] == expected
            # Two copies of each block on three nodes: one of two agents is always beside it.
            assert loader.summary().counts.beside == loader.summary().counts.samples
        after = [agent_statistics(agent) for agent in agents]
    for early, late in zip(before, after, strict=True):
        started = late["placed"] - early["placed"]
        assert started > 0
        assert late["beside"] - early["beside"] == started


def _agent_beside(cluster: Cluster, number: int, dataset: Path) -> LocalAgent:
    address = cluster.datanodes[number].address
    return LocalAgent(
        [dataset],
        name=f"beside-{number}",
        token=TOKEN,
        options=(
            "--storage", f"{cluster.url}/", "--host", address, "--workers", "1",
            "--memory", "128MiB", "--cpu-threshold", "1", "--worker-memory", "1GiB",
        ),
    )  # fmt: skip


@pytest.mark.timeout(300)
def test_copies_that_are_made_and_nodes_that_die_are_noticed(
    hdfs_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = hdfs_cluster(datanodes=2, block_size=1 << 20, replication=1)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.config_dir))
    storage = HdfsStorage(cluster.url)
    assert isinstance(storage, Locates)
    storage.write("x.tar", bytes(1 << 20))
    finder = Finder([LocatedSource(["x.tar"], storage)], PlacingLimits(refresh_s=0.1))

    def nodes() -> set[str]:
        places = finder.advance(time.monotonic())
        known = places or finder.advance(time.monotonic() + 0.2)
        return set() if known is None else {node.address for node in known.nodes}

    (first,) = nodes()
    storage.set_replication("x.tar", 2)
    eventually(lambda: len(nodes()) == 2)
    for datanode in cluster.datanodes:
        if datanode.address == first:
            datanode.kill()
    eventually(lambda: bool(found := nodes()) and first not in found, within_s=90)
    storage.close()
