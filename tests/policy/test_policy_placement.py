"""Placement: even by weight, near the bytes, stable, balanced, the same for every order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.core.roster import RosterEntry
from headrace.policy.placement import HEAVY, Placement

UNHURRIED = settings(deadline=None, max_examples=50)
SAMPLES = np.arange(2000, dtype=np.int64) * 1_000_003
NODES = tuple("klmnop")
ENTRIES = st.builds(
    lambda name, hosts, weight: RosterEntry(name=name, hosts=tuple(hosts), weight=weight),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6),
    st.sets(st.sampled_from(NODES), max_size=2),
    st.integers(1, 64),
)
ROSTERS = st.lists(ENTRIES, min_size=2, max_size=8, unique_by=lambda entry: entry.name)
HOLDERS = st.lists(st.sets(st.sampled_from(NODES), max_size=3), min_size=1, max_size=6)


@dataclass
class Batch:
    """One global batch, with who holds what."""

    samples: npt.NDArray[np.int64]
    costs: npt.NDArray[np.float64]
    sets: npt.NDArray[np.uint32]
    holders: list[set[str]]

    def names(self, roster: Sequence[RosterEntry]) -> npt.NDArray[np.object_]:
        placement = Placement(roster, self.holders)
        owner = placement.owners(self.samples, self.costs, self.sets)
        return np.array([entry.name for entry in roster], dtype=object)[owner]

    @property
    def light(self) -> npt.NDArray[np.bool_]:
        return self.costs * self.costs.size <= HEAVY * self.costs.sum()


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 200))
    holders = [set[str](), *draw(HOLDERS)]
    return Batch(
        samples=rng.integers(0, 2**40, count),
        costs=np.where(rng.random(count) < 0.05, 2.0, 0.01) * rng.integers(1, 4, count),
        sets=rng.integers(0, len(holders), count).astype(np.uint32),
        holders=holders,
    )


def named(*names: str) -> list[RosterEntry]:
    return [RosterEntry(name=name) for name in names]


def weighted(*weights: int) -> list[RosterEntry]:
    return [RosterEntry(name=f"s{n:03}", weight=weight) for n, weight in enumerate(weights)]


@UNHURRIED
@given(roster=ROSTERS, batch=batches(), data=st.data())
def test_when_an_agent_leaves_only_its_own_light_samples_move(
    roster: list[RosterEntry], batch: Batch, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(roster))
    before, light = batch.names(roster), batch.light
    after = batch.names([entry for entry in roster if entry is not gone])
    stays = light & (before != gone.name)
    assert np.array_equal(before[stays], after[stays])


@UNHURRIED
@given(roster=ROSTERS, batch=batches(), data=st.data())
def test_when_a_weight_changes_light_samples_move_from_or_to_that_agent_only(
    roster: list[RosterEntry], batch: Batch, data: st.DataObject
) -> None:
    chosen = data.draw(st.integers(0, len(roster) - 1))
    weight = data.draw(st.integers(1, 64))
    other = list(roster)
    other[chosen] = msgspec.structs.replace(roster[chosen], weight=weight)
    before, after = batch.names(roster), batch.names(other)
    moved = batch.light & (before != after)
    gaining = weight >= roster[chosen].weight
    name = roster[chosen].name
    assert np.all((after if gaining else before)[moved] == name)


@UNHURRIED
@given(roster=ROSTERS, batch=batches(), data=st.data())
def test_neither_the_order_of_the_agents_nor_of_the_batch_matters(
    roster: list[RosterEntry], batch: Batch, data: st.DataObject
) -> None:
    other = data.draw(st.permutations(roster))
    turned = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(batch.samples.size)
    shuffled = Batch(batch.samples[turned], batch.costs[turned], batch.sets[turned], batch.holders)
    assert np.array_equal(batch.names(roster)[turned], shuffled.names(other))


@UNHURRIED
@given(roster=ROSTERS, batch=batches())
def test_samples_go_beside_their_bytes_wherever_somebody_sits_there(
    roster: list[RosterEntry], batch: Batch
) -> None:
    hosts = {entry.name: set(entry.hosts) for entry in roster}
    for name, number in zip(batch.names(roster), batch.sets, strict=True):
        nodes = batch.holders[number]
        if any(nodes & near for near in hosts.values()):
            assert nodes & hosts[name]


@UNHURRIED
@given(roster=ROSTERS, batch=batches())
def test_visits_of_one_sample_go_to_one_agent(roster: list[RosterEntry], batch: Batch) -> None:
    twice = Batch(
        np.concatenate([batch.samples, batch.samples]),
        np.concatenate([batch.costs, batch.costs]),
        np.concatenate([batch.sets, batch.sets]),
        batch.holders,
    )
    names = twice.names(roster)
    assert np.array_equal(names[: batch.samples.size], names[batch.samples.size :])


@UNHURRIED
@given(roster=ROSTERS, sample=st.integers(0, 2**62), holders=HOLDERS)
def test_preference_begins_with_the_owner_and_goes_on_with_who_would_own_it_next(
    roster: list[RosterEntry], sample: int, holders: list[set[str]]
) -> None:
    order = Placement(roster, [set(), *holders]).preference(sample, 1)
    assert sorted(order) == list(range(len(roster)))
    left = list(roster)
    for index in order:
        placement = Placement(left, [set(), *holders])
        owner = placement.owners(np.array([sample]), sets=np.array([1], np.uint32))[0]
        assert left[owner] is roster[index]
        left.remove(roster[index])


@pytest.mark.parametrize("agents", [2, 3, 16, 100])
def test_neighbouring_samples_are_shared_evenly(agents: int) -> None:
    samples = np.arange(100_000, dtype=np.int64)
    counts = np.bincount(Placement(weighted(*[1] * agents)).owners(samples), minlength=agents)
    even = samples.size / agents
    assert np.all(np.abs(counts - even) < 5 * np.sqrt(even))


@pytest.mark.parametrize("weights", [(1, 2, 4), (3, 3, 3, 96), (7, 1, 7, 20, 20), (1, 1000)])
def test_samples_are_shared_in_proportion_to_the_weights(weights: tuple[int, ...]) -> None:
    samples = np.arange(200_000, dtype=np.int64)
    counts = np.bincount(Placement(weighted(*weights)).owners(samples), minlength=len(weights))
    due = samples.size * np.array(weights) / sum(weights)
    assert np.all(np.abs(counts - due) < 5 * np.sqrt(due))


def test_holders_share_their_samples_by_weight_too() -> None:
    samples = np.arange(100_000, dtype=np.int64)
    roster = [
        RosterEntry(name="a", hosts=("x",), weight=1),
        RosterEntry(name="b", hosts=("y",), weight=3),
        RosterEntry(name="c", hosts=("z",), weight=8),
    ]
    placement = Placement(roster, [(), ("x", "y")])
    owner = placement.owners(samples, sets=np.ones(samples.size, np.uint32))
    counts = np.bincount(owner, minlength=3)
    assert counts[2] == 0
    assert abs(counts[0] - 25_000) < 5 * np.sqrt(25_000)


def test_the_samples_of_one_who_left_go_to_all_others_evenly() -> None:
    samples = np.arange(100_000, dtype=np.int64)
    roster = named("a", "b", "c", "d", "e")
    orphans = samples[Placement(roster).owners(samples) == 0]
    counts = np.bincount(Placement(roster[1:]).owners(orphans), minlength=4)
    assert np.all(np.abs(counts - orphans.size / 4) < 5 * np.sqrt(orphans.size / 4))


@pytest.mark.parametrize("seed", range(5))
def test_no_agent_gets_more_long_clips_than_another(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.choice(10**6, 512, replace=False)
    costs = np.full(512, 0.01)
    costs[:8] = 3.0
    owner = Placement(named("a", "b", "c", "d")).owners(samples, costs)
    assert np.bincount(owner[:8]).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("seed", range(5))
def test_a_weak_agent_gets_fewer_long_clips(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = np.full(512, 0.001)
    costs[:9] = 3.0
    owner = Placement(weighted(1, 8)).owners(rng.choice(10**6, 512, replace=False), costs)
    assert np.bincount(owner[:9]).tolist() == [1, 8]


@UNHURRIED
@given(roster=ROSTERS, batch=batches())
def test_dealing_keeps_every_agent_within_one_heavy_sample_of_its_due(
    roster: list[RosterEntry], batch: Batch
) -> None:
    """List scheduling: whoever got a heavy sample was done first with it among all."""
    batch.sets[:] = 0
    names = batch.names(roster)
    loads = {e.name: batch.costs[names == e.name].sum() / e.weight for e in roster}
    weights = {entry.name: entry.weight for entry in roster}
    for name in set(names[~batch.light]):
        last = batch.costs[(names == name) & ~batch.light].min()
        others = [loads[other] + last / weights[other] for other in loads if other != name]
        assert loads[name] <= min(others) * 1.001


def test_owners_are_pinned() -> None:
    samples = np.arange(12, dtype=np.int64)
    assert Placement(named("a", "b", "c")).owners(samples).tolist() == [
        0, 2, 0, 1, 1, 0, 2, 1, 0, 2, 0, 2,
    ]  # fmt: skip
    uneven = Placement(weighted(1, 2, 5))
    costs = np.array([1, 1, 1, 1, 1, 90, 1, 1, 1, 1, 80, 1.0])
    assert uneven.owners(samples, costs).tolist() == [
        2, 2, 2, 1, 0, 2, 2, 1, 2, 1, 2, 2,
    ]  # fmt: skip


@pytest.mark.parametrize("roster", [[], named("a", "a")])
def test_a_roster_that_names_nobody_or_somebody_twice_is_refused(
    roster: list[RosterEntry],
) -> None:
    with pytest.raises(ConfigError, match="--name"):
        Placement(roster)


@pytest.mark.parametrize("weight", [0, -1, 1 << 40])
def test_a_weight_beyond_reason_is_refused(weight: int) -> None:
    with pytest.raises(ConfigError, match="weight"):
        RosterEntry(name="a", weight=weight)


def test_costs_that_make_no_sense_are_still_placed() -> None:
    costs = np.array([np.nan, np.inf, -1.0, 0.0, 1.0])
    assert Placement(named("a", "b")).owners(np.arange(5), costs).size == 5
    assert Placement(named("a", "b")).owners(np.arange(0), np.empty(0)).size == 0
