"""Which hosts, files and kinds of samples the slowest loads have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.analysis.columns import Columns
from headrace.analysis.figures import Stragglers, Suspect
from headrace.analysis.named import NamedSums
from headrace.analysis.spreads import NS_PER_S

MOST_SLOW = 65_536
"""Slow loads that are kept: a whole percent of 6.5 million loads, and of more, the slowest."""

SLOW_SHARE = 0.01
LEAST_SLOW = 10
"""So many slow loads are looked at at least; where loads are fewer than twice that, none are."""

LEAST_RATIO = 1.2
"""A suspect's loads take so much longer than others', on average."""

LEAST_LIFT = 2.0
"""A suspect is in so many times more of the slowest loads than its share of all loads."""

BY_CHANCE = 0.05
"""Suspects that a trace has at most, on average, where nobody is to blame: of many files that are
read once each, some are among the slowest loads anyway."""

MOST_SUSPECTS = 5

_SUFFIX = r"(?s)^(?:.*(\.[A-Za-z0-9_]{1,12})|.*)$"
_TRAITS = ("host", "file", "sort")


class SlowLoads:
    """Takes in loads of one unit; for hosts, files and suffixes knows how long theirs took."""

    def __init__(self) -> None:
        self.loads = 0
        self.total_ns = 0.0
        self._sums = {name: NamedSums((name,), {"ns": "sum", "loads": "sum"}) for name in _TRAITS}
        self._slow: list[pa.Table] = []
        self._slow_rows = 0
        self._threshold = 0.0

    def add(self, loads: Columns) -> None:
        """Take in loads whose duration is known."""
        if not len(loads):
            return
        times = loads.operations
        nanoseconds = loads.durations.astype(np.float64)
        self.loads += int(times.sum())
        self.total_ns += float(nanoseconds.sum())
        traits = _traits(loads)
        for name, sums in self._sums.items():
            known = pc.is_valid(traits[name])
            rows = pa.table({name: traits[name], "ns": nanoseconds, "loads": times}).filter(known)
            sums.add({column: rows[column] for column in rows.column_names})
        self._keep_slow(loads, traits)

    def merge(self, other: SlowLoads) -> None:
        """Take in all that another one took in."""
        self.loads += other.loads
        self.total_ns += other.total_ns
        for name, sums in self._sums.items():
            sums.merge(other._sums[name])
        for table in other._slow:
            self._keep(table)

    def stragglers(self, named: SlowLoads) -> Stragglers | None:
        """Return who is slow; None where there is one host alone and nothing else stands out.

        Args:
            named: Loads that name files, which are those of samples where these are loads of
                batches.
        """
        means = [(ns / loads, name) for name, ns, loads in self._groups("host")]
        suspects = Stragglers(
            hosts=self.suspects("host"),
            files=named.suspects("file"),
            kinds=named.suspects("sort"),
        )
        if len(means) < 2:
            return suspects if suspects != Stragglers() else None
        slowest_ns, slowest = max(means)
        mean_ns = sum(ns for ns, _ in means) / len(means)
        return msgspec.structs.replace(
            suspects,
            slowest_host=slowest,
            slowest_mean_s=slowest_ns / NS_PER_S,
            mean_s=mean_ns / NS_PER_S,
            gap_s=(slowest_ns - mean_ns) / NS_PER_S,
        )

    def suspects(self, trait: str) -> tuple[Suspect, ...]:
        """Return hosts, files or suffixes (``sort``) that are slower than others, worst first."""
        slow = self._slowest()
        if slow is None:
            return ()
        counts = slow.group_by([trait], use_threads=False).aggregate([([], "count_all")])
        among = dict(zip(counts[trait].to_pylist(), counts["count_all"].to_pylist(), strict=True))
        groups, of_all = list(self._groups(trait)), slow.num_rows / self.loads
        found = [
            self._suspect(name, ns, loads, among[name] / slow.num_rows)
            for name, ns, loads in groups
            if name in among and len(groups) * _chance(among[name], loads, of_all) <= BY_CHANCE
        ]
        bad = [one for one in found if one is not None]
        bad.sort(key=lambda one: (-one.share, -one.mean_s, one.name))
        return tuple(bad[:MOST_SUSPECTS])

    def _suspect(self, name: str, ns: float, loads: int, share: float) -> Suspect | None:
        others = self.loads - loads
        if not others:
            return None
        mean_ns, others_ns = ns / loads, (self.total_ns - ns) / others
        if mean_ns < LEAST_RATIO * others_ns or share < LEAST_LIFT * loads / self.loads:
            return None
        return Suspect(
            name=name, mean_s=mean_ns / NS_PER_S, others_mean_s=others_ns / NS_PER_S, share=share
        )

    def _groups(self, trait: str) -> Iterable[tuple[str, float, int]]:
        table = self._sums[trait].table()
        if table is None:
            return ()
        columns = (table[name].to_pylist() for name in (trait, "ns", "loads"))
        return [group for group in zip(*columns, strict=True) if group[2]]

    def _slowest(self) -> pa.Table | None:
        """Return the slowest percent of loads, with all that took as long as the last of them.

        None where loads are too few to say.
        """
        wanted = max(math.ceil(SLOW_SHARE * self.loads), LEAST_SLOW)
        if not self._slow or self.loads < 2 * wanted:
            return None
        ordered = pa.concat_tables(self._slow).sort_by(_ORDER)
        last_ns = ordered["ns"][min(wanted, ordered.num_rows) - 1]
        return ordered.filter(pc.greater_equal(ordered["ns"], last_ns))

    def _keep_slow(self, loads: Columns, traits: dict[str, pa.Array]) -> None:
        per_load = loads.durations / np.maximum(loads.operations, 1)
        rows = pa.table({**traits, "ns": per_load, "begin": loads.begins})
        self._keep(rows.filter(pa.array(per_load >= self._threshold)))

    def _keep(self, rows: pa.Table) -> None:
        self._slow.append(rows)
        self._slow_rows += rows.num_rows
        if self._slow_rows > 2 * MOST_SLOW:
            kept = pa.concat_tables(self._slow).sort_by(_ORDER).slice(0, MOST_SLOW)
            self._slow, self._slow_rows = [kept.combine_chunks()], kept.num_rows
            self._threshold = kept["ns"][-1].as_py()


def _chance(found: int, loads: int, of_all: float) -> float:
    """Return how likely so many of some loads, or more, are slow by chance, at most.

    Chernoff's bound for draws without replacement: W. Hoeffding, "Probability Inequalities for Sums
    of Bounded Random Variables", 1963.

    Args:
        found: Of the loads that are slow.
        loads: Of one host, file or suffix.
        of_all: Share of all loads that are slow.
    """
    share = found / loads
    if share <= of_all:
        return 1.0
    rest = (1 - share) * math.log((1 - share) / (1 - of_all)) if share < 1 else 0.0
    return math.exp(-loads * (share * math.log(share / of_all) + rest))


_ORDER = [
    ("ns", "descending"),
    ("begin", "ascending"),
    ("host", "ascending"),
    ("file", "ascending"),
]


def _traits(loads: Columns) -> dict[str, pa.Array]:
    """Return host, file and suffix of each load, null where it is not known."""
    return {
        "host": loads.strings("host"),
        "file": loads.strings("file"),
        "sort": _suffixes(loads),
    }


def _suffixes(loads: Columns) -> pa.Array:
    """Return the suffix of each load's file, else of its sample."""
    return pc.coalesce(*(_suffixes_of(loads.strings(name)) for name in ("file", "sample")))


def _suffixes_of(names: pa.StringArray) -> pa.Array:
    found = pc.replace_substring_regex(names, _SUFFIX, r"\1")
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)
