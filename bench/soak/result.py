"""What the looks come to: trends, verdicts, tables, the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from bench.measuring import Report
from bench.soak.data import SAMPLES
from bench.soak.experiments import AGENT, AGENT_OPTIONS, ALONE, PAIRED, Look, Restarted, Scale
from bench.soak.trend import Trend, trend
from headrace.report.blocks import Table
from headrace.report.units import bytes_, counted

WARM_UP_SHARE = 0.1
"""Of the run, which does not count."""

WARM_MINUTES = 5.0
"""Memory of a run shorter than this is not judged: buffers and pools still come to their size."""

MEMORY_SHARE = 0.02
"""Memory may surely grow by this share in an hour, and mappings."""

JUDGED_FROM = 0.5
"""Memory is judged by what follows this share of the run: a heap comes to its size over thousands
of steps, ever more slowly, and a leak goes on."""

HANDLES = 2.0
"""Of each kind so many may surely be more in the end: how many are open at a moment varies."""

SIDES = (ALONE, PAIRED, AGENT)
_MEMORY = {
    "own": "own_bytes",
    "of it shared": "shared_bytes",
    "pss": "pss_bytes",
    "rss": "rss_bytes",
}
_JUDGED = "own"
"""Must be flat; what is mapped of files comes and goes with the page cache."""

_SECOND_HALF = "own, second half"
_MAPPINGS = "mappings"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """What became of one side."""

    memory: Mapping[str, Trend]
    """``own``, what of it is shared, ``pss`` and ``rss`` [bytes]."""

    second_half: Trend
    """Of ``own`` [bytes]."""

    handles: Mapping[str, Trend]

    def growing(self) -> list[str]:
        """Name what surely grows."""
        found = [_JUDGED] if self.second_half.grows(share=MEMORY_SHARE) else []
        return found + [
            kind for kind, one in self.handles.items() if one.grows(share=MEMORY_SHARE, by=HANDLES)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """All that was found."""

    scale: Scale
    looks: Sequence[Look]
    restarted: Sequence[Restarted]

    def sides(self) -> dict[str, Side]:
        """Return what became of each side after the warm-up."""
        warm, late = self._since(WARM_UP_SHARE), self._since(JUDGED_FROM)
        return {name: _side(name, warm, late) for name in SIDES}

    def _since(self, share: float) -> list[Look]:
        """Return the looks after a share of the run."""
        begin_s = self.looks[-1].at_s * share
        return [look for look in self.looks if look.at_s >= begin_s]

    def verdicts(self) -> dict[str, bool]:
        """Return what is as it should be."""
        growing = {name: side.growing() for name, side in self.sides().items()}
        is_long = self.looks[-1].at_s >= WARM_MINUTES * 60 - self.scale.every_s
        memory = {"memory_flat": all(_JUDGED not in grow for grow in growing.values())}
        return {
            **(memory if is_long else {}),
            "handles_flat": all(not set(grow) - {_JUDGED} for grow in growing.values()),
            "restarts_leave_nothing": all(not left_by(one) for one in self.restarted),
        }


def left_by(restarted: Restarted) -> dict[str, float]:
    """Return what a process holds more of since something was restarted: kind → how many.

    Mappings are left out: how many malloc has depends on what memory was in use at once.
    """
    more = {
        kind: count - restarted.before.handles.get(kind, 0.0)
        for kind, count in restarted.after.handles.items()
    }
    return {kind: n for kind, n in more.items() if n > HANDLES and kind != _MAPPINGS}


def _side(name: str, looks: Sequence[Look], late: Sequence[Look]) -> Side:
    kinds = sorted({kind for look in looks for kind in look.sides[name].handles})
    return Side(
        memory={
            told: _trend(looks, lambda look, f=field: getattr(look.sides[name], f))
            for told, field in _MEMORY.items()
        },
        second_half=_trend(late, lambda look: getattr(look.sides[name], _MEMORY[_JUDGED])),
        handles={
            kind: _trend(looks, lambda look, k=kind: look.sides[name].handles[k]) for kind in kinds
        },
    )


def _trend(looks: Sequence[Look], value: Callable[[Look], float]) -> Trend:
    return trend([look.at_s for look in looks], [value(look) for look in looks])


def report_of(result: Result) -> Report:
    """Return the report: there is no baseline, figures are absolute."""
    sides, verdicts = result.sides(), result.verdicts()
    return Report(
        name="soak",
        settings={
            **msgspec.to_builtins(result.scale),
            "dataset_samples": SAMPLES,
            "agent_options": AGENT_OPTIONS,
            "memory_share_per_hour": MEMORY_SHARE,
            "handles": HANDLES,
        },
        baseline={},
        headrace=sides,
        ratios={},
        goals={},
        table=_memory_table(sides, result),
        repeats=1,
        further={
            "verdicts": verdicts,
            "made": result.looks[-1].progress,
            "restarted": list(result.restarted),
            "own_bytes": _series(result.looks),
        },
        further_tables=(
            _handles_table(sides),
            *map(_restart_table, result.restarted),
            _verdict_table(verdicts),
        ),
    )


def _series(looks: Sequence[Look]) -> dict[str, list[float]]:
    """Return the judged memory at some hundred moments at most."""
    some = looks[:: max(1, len(looks) // 100)]
    series: dict[str, list[float]] = {"at_s": [look.at_s for look in some]}
    return series | {name: [float(look.sides[name].own_bytes) for look in some] for name in SIDES}


def _memory_table(sides: Mapping[str, Side], result: Result) -> Table:
    made = result.looks[-1].progress
    return Table(
        title=f"Memory over {result.looks[-1].at_s / 60:.1f} minutes",
        columns=("side", "memory", "begin", "end", "growth in an hour", "95 % interval"),
        rows=tuple(
            (
                side,
                name,
                bytes_(one.begin),
                bytes_(one.end),
                _signed(one.per_hour),
                f"{_signed(one.least_per_hour)} to {_signed(one.most_per_hour)}",
            )
            for side, found in sides.items()
            for name, one in {**found.memory, _SECOND_HALF: found.second_half}.items()
        ),
        note=f"own: anonymous and shared pages, each counted once; in the second half of the run "
        f"it may surely grow by {MEMORY_SHARE:.0%} in an hour. Shared is what an agent keeps "
        "samples in: it has a bound (--memory), and comes and goes with what is prepared ahead. "
        + "; ".join(
            f"{side}: {counted(told.samples, 'sample')} in {counted(told.steps, 'step')} and "
            f"{counted(told.epochs, 'epoch')} of {counted(told.loaders, 'loader')}"
            for side, told in made.items()
        ),
    )


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{bytes_(abs(value))}"


def _handles_table(sides: Mapping[str, Side]) -> Table:
    return Table(
        title="Handles",
        columns=("side", "kind", "warmed up", "end", "growth in an hour"),
        rows=tuple(
            (side, kind, f"{one.begin:g}", f"{one.end:g}", f"{one.per_hour:+.1f}")
            for side, found in sides.items()
            for kind, one in found.handles.items()
        ),
    )


def _restart_table(restarted: Restarted) -> Table:
    before, after, left = restarted.before, restarted.after, left_by(restarted)
    return Table(
        title=f"{restarted.side}, before and after {restarted.what} was ended and begun again",
        columns=("what", "before", "after", "left behind"),
        rows=(
            ("own memory", bytes_(before.own_bytes), bytes_(after.own_bytes), ""),
            ("of it shared", bytes_(before.shared_bytes), bytes_(after.shared_bytes), ""),
            *(
                (kind, f"{before.handles.get(kind, 0):g}", f"{n:g}", f"{left.get(kind, 0):g}")
                for kind, n in after.handles.items()
            ),
        ),
    )


def _verdict_table(verdicts: Mapping[str, bool]) -> Table:
    return Table(
        title="Verdicts",
        columns=("what", "so"),
        rows=tuple((name, "yes" if is_so else "NO") for name, is_so in verdicts.items()),
    )
