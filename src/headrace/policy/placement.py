"""Which agent prepares which sample of a batch: a pure function, the same answer everywhere.

Three rules, in order:

1. A sample goes to the agents beside the nodes that hold its bytes; one that nobody sits
   beside may go to any.
2. Among those, weighted rendezvous hashing decides: each agent's name gives each sample a
   waiting time, exponentially distributed with the agent's weight as its rate, and the
   shortest wins. When an agent leaves, or its weight changes, only samples from or to it
   move.
3. The few samples that cost much more than the batch's mean are dealt one by one, in order
   of falling cost, to whoever would be done with them first; so no agent gets all long
   clips of a step.

All of it is integer arithmetic, so that trainers and agents agree on every CPU and with
every NumPy: no logarithm of a C library takes part.

Source: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates",
IEEE/ACM Transactions on Networking 6(1), 1998; weights as in J. Schindelhauer, G.
Schomaker, "Weighted distributed hash tables", SPAA 2005 (the logarithmic method).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.core.mixing import Words, key_words, mix64, word
from headrace.core.roster import RosterEntry

HEAVY = 4
"""A sample that costs more than so many times the batch's mean is dealt, not hashed."""

MOST_DEALT = 256
"""Most samples of one batch that are dealt: the heaviest ones."""

ANYWHERE = 0
"""Number of the set of holders of a sample that nobody is known to hold."""

Agents = npt.NDArray[np.intp]
"""Positions of agents in the roster."""

_CHUNK = 1 << 14
"""Hashes that are computed at once: few enough to stay in the CPU's cache."""

_TABLE_BITS = 12
_STEP_BITS = 30
_FRACTION_BITS = 32
_SCALE_BITS = 26
_INDEX_SHIFT = word(64 - _TABLE_BITS)
_STEP_SHIFT = word(64 - _TABLE_BITS - _STEP_BITS)
_STEP_MASK = word((1 << _STEP_BITS) - 1)
_NEVER = np.iinfo(np.uint64).max


class Placement:
    """The agents of a job and where they sit. Immutable but for a memo; thread-safe."""

    def __init__(
        self, roster: Sequence[RosterEntry], holders: Sequence[Collection[str]] = ()
    ) -> None:
        """Take in who shares the work.

        Args:
            roster: The agents; their order does not matter.
            holders: For each number of a set of nodes, the names and addresses of the nodes;
                ``ANYWHERE`` comes first. Samples name their set by its number.

        Raises:
            ConfigError: ``roster`` is empty or has a name twice.
        """
        self._names = tuple(entry.name for entry in roster)
        self._keys = _keys(self._names)
        self._weights = np.array([entry.weight for entry in roster], dtype=np.uint64)
        self._by_name = np.array(sorted(range(len(roster)), key=self._names.__getitem__))
        self._classes = _by_weight(self._weights, self._by_name)
        self._beside: dict[str, list[int]] = {}
        for index in self._by_name.tolist():
            for host in set(roster[index].hosts):
                self._beside.setdefault(host, []).append(index)
        self._holders = holders
        self._known: dict[int, tuple[int, ...]] = {}

    def owners(
        self,
        samples: npt.NDArray[np.int64],
        costs: npt.NDArray[np.float64] | None = None,
        sets: npt.NDArray[np.uint32] | None = None,
    ) -> Agents:
        """Return the position in the roster of the agent that prepares each sample, ``[N]``.

        All visits of one sample in a batch go to the same agent. The order of the batch does
        not matter.

        Args:
            samples: Global sample ids of a whole global batch, ``[N]``.
            costs: Estimated time to prepare each [s], ``[N]``; None: all the same.
            sets: Number of the set of nodes that hold each, ``[N]``; None: unknown.
        """
        owner = self._hashed(samples, sets)
        if costs is not None and len(self._names) > 1:
            self._deal(owner, samples, costs, sets)
        return owner

    def preference(self, sample: int, number: int = ANYWHERE) -> tuple[int, ...]:
        """Return all agents: by hash those beside a sample's bytes, then by hash the others."""
        everyone = self._by_name
        waits = self._waits(_mixed(np.array([sample])), everyone[None, :])[0]
        order: list[int] = everyone[np.argsort(waits, kind="stable")].tolist()
        near = self.beside(number)
        return tuple(sorted(order, key=lambda agent: agent not in near))

    def beside(self, number: int) -> tuple[int, ...]:
        """Return the agents beside the nodes of a set, by name; empty when there are none."""
        found = self._known.get(number)
        if found is None:
            nodes = self._holders[number] if number < len(self._holders) else ()
            near = {agent for node in nodes for agent in self._beside.get(node, ())}
            found = self._known[number] = tuple(sorted(near, key=self._names.__getitem__))
        return found

    def _hashed(
        self, samples: npt.NDArray[np.int64], sets: npt.NDArray[np.uint32] | None
    ) -> Agents:
        mixed = _mixed(samples)
        owner = np.empty(mixed.size, dtype=np.intp)
        near = self._near(sets, mixed.size)
        placed = near[:, 0] >= 0
        owner[placed] = self._first(mixed[placed], near[placed])
        free = mixed[~placed]
        owner[~placed] = self._first(free, self._champions(free))
        return owner

    def _near(self, sets: npt.NDArray[np.uint32] | None, count: int) -> Agents:
        """Return the agents beside each sample, -1 for none, ``[N, most]``."""
        if sets is None or not self._beside:
            return np.full((count, 1), -1, dtype=np.intp)
        numbers, row = np.unique(sets, return_inverse=True)
        rows = [self.beside(number) for number in numbers.tolist()]
        width = max((len(found) for found in rows), default=0) or 1
        filled = [found + (-1,) * (width - len(found)) for found in rows]
        return np.array(filled, dtype=np.intp).reshape(-1, width)[row]

    def _champions(self, mixed: Words) -> Agents:
        """Return the winner of each class of equal weights: nobody else can win, ``[N, classes]``.

        Among equal weights the shortest waiting time is the highest hash.
        """
        return np.stack([self._highest(mixed, members) for members in self._classes], axis=1)

    def _highest(self, mixed: Words, members: Agents) -> Agents:
        winner = np.zeros(mixed.size, dtype=np.intp)
        if members.size > 1:
            keys, lines = self._keys[members], max(_CHUNK // members.size, 1)
            for begin in range(0, mixed.size, lines):
                part = slice(begin, begin + lines)
                winner[part] = mix64(mixed[part, None] ^ keys).argmax(axis=1)
        return members[winner]

    def _first(self, mixed: Words, candidates: Agents) -> Agents:
        """Return who waits the shortest among each sample's candidates, ``[N]``."""
        if candidates.shape[1] == 1:
            return candidates[:, 0]
        best = self._waits(mixed, candidates).argmin(axis=1)
        first: Agents = candidates[np.arange(best.size), best]
        return first

    def _waits(self, mixed: Words, candidates: Agents) -> Words:
        """Return each candidate's waiting time, ``[N, candidates]``; -1 never comes."""
        waits = _waiting_times(mix64(mixed[:, None] ^ self._keys[candidates]))
        waits <<= word(_SCALE_BITS)
        waits //= self._weights[candidates]
        waits[candidates < 0] = _NEVER
        return waits

    def _deal(
        self,
        owner: Agents,
        samples: npt.NDArray[np.int64],
        costs: npt.NDArray[np.float64],
        sets: npt.NDArray[np.uint32] | None,
    ) -> None:
        """Give the heavy samples anew, the heaviest first, to who would be done first."""
        micros = _microseconds(costs)
        heavy = _heavy(samples, micros)
        if not heavy.size:
            return
        hashed = ~np.isin(samples, samples[heavy])
        loads = np.bincount(owner[hashed], micros[hashed], len(self._names)).astype(np.int64)
        dealt = {}
        for place in heavy.tolist():
            sample, number = int(samples[place]), ANYWHERE if sets is None else int(sets[place])
            agent = dealt[sample] = self._soonest(sample, number, loads + micros[place])
            loads[agent] += micros[place]
        for place in np.flatnonzero(~hashed).tolist():
            owner[place] = dealt[int(samples[place])]

    def _soonest(self, sample: int, number: int, loads: npt.NDArray[np.int64]) -> int:
        """Return who is done first, were the sample its own; a tie goes by the hash."""
        near = np.array(self.beside(number) or self._by_name)
        done = (loads[near] << 10) // self._weights[near].view(np.int64)
        first = near[done == done.min()]
        return int(self._first(_mixed(np.array([sample])), first[None, :])[0])


def leader(job: str, names: Sequence[str]) -> int:
    """Return the position of the agent that finds out for all where a job's bytes lie.

    Raises:
        ConfigError: ``names`` is empty or has a name twice.
    """
    scores = mix64(_keys(tuple(names)) ^ key_words(1, b"leader", job.encode()))
    return int(scores.argmax())


def _by_weight(weights: Words, by_name: Agents) -> list[Agents]:
    """Return the agents of each weight, in order of their names."""
    order = by_name[np.argsort(weights[by_name], kind="stable")]
    _, begins = np.unique(weights[order], return_index=True)
    return np.split(order, begins[1:])


def _mixed(samples: npt.NDArray[np.int64]) -> Words:
    return mix64(np.asarray(samples, np.int64).view(np.uint64))


def _microseconds(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return costs as whole numbers, whose sums do not depend on the order [µs]."""
    finite = np.nan_to_num(np.asarray(costs, np.float64), nan=0.0)
    return np.rint(finite.clip(1e-6, 1e6) * 1e6).astype(np.int64)


def _heavy(samples: npt.NDArray[np.int64], micros: npt.NDArray[np.int64]) -> Agents:
    """Return where in the batch the heavy samples are, each once, the heaviest first.

    What is heavy depends on the batch alone: when agents come and go, no sample turns heavy.
    """
    places = np.flatnonzero(micros * micros.size > HEAVY * micros.sum())
    places = places[np.lexsort((samples[places], -micros[places]))]
    _, first = np.unique(samples[places], return_index=True)
    chosen: Agents = places[np.sort(first)[:MOST_DEALT]]
    return chosen


def _waiting_times(hashes: Words) -> Words:
    """Return -log2((hash + 1) / 2^64) with 32 binary places, linear between 4096 points."""
    table = _logarithms()
    index = (hashes >> _INDEX_SHIFT).astype(np.intp)
    step = (hashes >> _STEP_SHIFT) & _STEP_MASK
    step *= table[index] - table[index + 1]
    step >>= word(_STEP_BITS)
    return table[index] - step


@lru_cache(maxsize=1)
def _logarithms() -> Words:
    """Return -log2(i / 4096) with 32 binary places for i from 0 to 4096; finite at 0.

    Each place comes from squaring: if x² reaches 2, the next place of log2(x) is 1.
    """
    points = np.arange(1, (1 << _TABLE_BITS) + 1, dtype=np.uint64)
    whole = np.zeros_like(points)
    for bit in range(1, _TABLE_BITS + 1):
        whole += (points >> word(bit)) > 0
    power = points << (word(31) - whole)
    for _ in range(_FRACTION_BITS):
        power = (power * power) >> word(31)
        carry = power >> word(32)
        whole = (whole << word(1)) | carry
        power >>= carry
    rest = word(_TABLE_BITS << _FRACTION_BITS) - whole
    return np.concatenate([rest[:1] + word(2 << _FRACTION_BITS), rest])


@lru_cache(maxsize=64)
def _keys(names: tuple[str, ...]) -> Words:
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"the agents {list(names)} cannot share samples: there must be at least one, and each "
            "needs a name of its own; start agents with different --name"
        )
    return np.concatenate([key_words(1, b"placement", name.encode()) for name in names])
