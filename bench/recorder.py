"""What recording costs a loader: the same steps with and without it, in turns in one process.

Two loads: small texts, of which a loader makes the most steps a second that it can, and the
photographs of ``bench.loader``. A run takes batches as fast as they come and ends when the queue
is full again, so that every run makes equally many. Where others use the machine, the CPU time of
the process says more than the wall clock.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from bench.loader import PIPELINE, endless, fill, write_pictures
from bench.measuring import (
    Options,
    Report,
    Spent,
    end_with,
    interleaved,
    options,
    publish,
    spent_on,
    spread,
)
from headrace import Loader, Pipeline
from headrace.report.blocks import Table
from headrace.trace.opening import open_trace

TEXT_LETTERS = 200
CONFIDENCE = 0.95
"""That the interval of a median holds the true one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What is loaded."""

    batch: int
    steps: int
    """Of one run."""

    samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    texts: Load = field(default_factory=lambda: Load(batch=32, steps=300, samples=20_000))
    photos: Load = field(default_factory=lambda: Load(batch=32, steps=10, samples=320))
    repeats: int = 15


QUICK = Scale(
    texts=Load(batch=32, steps=100, samples=5_000),
    photos=Load(batch=8, steps=4, samples=64),
    repeats=7,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Runs of one load, by whether they were recorded."""

    runs: Mapping[str, Sequence[Spent]]
    events: int
    """Recorded, over all runs."""


def main(given: Options) -> None:
    """Measure and report."""
    publish(measure(QUICK if given.quick else Scale()), given.json)


def measure(scale: Scale) -> Report:
    """Run loaders with and without a recorder in turn."""
    with tempfile.TemporaryDirectory() as folder:
        texts, photos = Path(folder, "texts"), Path(folder, "photos")
        _write_texts(texts, scale.texts.samples)
        photos.mkdir()
        write_pictures(photos, scale.photos.samples)
        found = {
            "texts": _measured(texts, Pipeline([]), scale.texts, scale.repeats),
            "photos": _measured(photos, PIPELINE, scale.photos, scale.repeats),
        }
    return _report(found, scale)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median by order statistics; all values, where they are few."""
    ordered, count = sorted(values), len(values)
    below, k = 0.0, 0
    while below + math.comb(count, k) / 2**count <= (1 - CONFIDENCE) / 2:
        below += math.comb(count, k) / 2**count
        k += 1
    return ordered[max(k - 1, 0)], ordered[min(count - k, count - 1)]


def _measured(dataset: Path, pipeline: Pipeline, load: Load, repeats: int) -> Measured:
    with ExitStack() as opened, tempfile.TemporaryDirectory() as trace:
        contenders = {
            name: opened.enter_context(_contender(dataset, pipeline, load, where))
            for name, where in (("off", False), ("on", trace))
        }
        runs = interleaved(contenders, repeats)
        opened.close()
        events = sum(batch.num_rows for batch in open_trace([trace]).batches())
    return Measured(runs, events)


@contextmanager
def _contender(
    dataset: Path, pipeline: Pipeline, load: Load, trace: str | bool
) -> Iterator[Callable[[], Spent]]:
    with Loader(dataset, pipeline=pipeline, batch_size=load.batch, trace=trace) as loader:
        batches = endless(loader)
        next(batches)

        def work() -> None:
            for _ in islice(batches, load.steps):
                pass
            fill(loader)

        def run() -> Spent:
            fill(loader)
            return spent_on(work)

        yield run


def _write_texts(folder: Path, count: int) -> None:
    folder.mkdir()
    lines = (json.dumps({"text": f"{number} ".ljust(TEXT_LETTERS, "x")}) for number in range(count))
    (folder / "texts.jsonl").write_text("\n".join(lines))


def _report(found: Mapping[str, Measured], scale: Scale) -> Report:
    loads = {"texts": scale.texts, "photos": scale.photos}
    wall = {name: _quotients(one, lambda spent: spent.wall_s) for name, one in found.items()}
    cpu = {name: _quotients(one, lambda spent: spent.cpu_s) for name, one in found.items()}
    return Report(
        name="recorder",
        settings=msgspec.to_builtins(scale),
        baseline={name: _figures(one.runs["off"], loads[name]) for name, one in found.items()},
        headrace={name: _figures(one.runs["on"], loads[name]) for name, one in found.items()},
        ratios={
            "throughput": spread(wall["texts"]),
            "throughput_photos": spread(wall["photos"]),
            "per_cpu": spread(cpu["texts"]),
            "per_cpu_photos": spread(cpu["photos"]),
        },
        goals={"throughput": "≥ 0.99", "throughput_photos": "≥ 0.99"},
        table=_table(found, loads),
        repeats=scale.repeats,
        further={
            "interval": {
                "throughput": interval(wall["texts"]),
                "throughput_photos": interval(wall["photos"]),
                "per_cpu": interval(cpu["texts"]),
                "per_cpu_photos": interval(cpu["photos"]),
            },
            "events": {name: one.events for name, one in found.items()},
        },
        further_tables=(_intervals(wall, cpu),),
    )


def _quotients(measured: Measured, of: Callable[[Spent], float]) -> list[float]:
    """Return throughput with recording by that without, turn by turn."""
    off, on = (list(map(of, measured.runs[name])) for name in ("off", "on"))
    return [a / b for a, b in zip(off, on, strict=True)]


def _figures(runs: Sequence[Spent], load: Load) -> dict[str, Any]:
    return {
        "steps_per_s": spread([load.steps / one.wall_s for one in runs]),
        "cpu_us_per_step": spread([one.cpu_s / load.steps * 1e6 for one in runs]),
    }


def _table(found: Mapping[str, Measured], loads: Mapping[str, Load]) -> Table:
    return Table(
        title="A loader with and without its recorder",
        columns=("load", "recorded", "steps / s", "CPU of a step [µs]"),
        rows=tuple(
            (
                name,
                how,
                f"{figures['steps_per_s'].median:.0f}",
                f"{figures['cpu_us_per_step'].median:.0f}",
            )
            for name, one in found.items()
            for how, runs in one.runs.items()
            for figures in [_figures(runs, loads[name])]
        ),
    )


def _intervals(wall: Mapping[str, Sequence[float]], cpu: Mapping[str, Sequence[float]]) -> Table:
    named = {"throughput": wall["texts"], "throughput_photos": wall["photos"]}
    named |= {"per_cpu": cpu["texts"], "per_cpu_photos": cpu["photos"]}
    return Table(
        title=f"{CONFIDENCE:.0%} intervals of the medians",
        columns=("ratio", "from", "to"),
        rows=tuple(
            (name, *(f"{end:.3f}" for end in interval(values))) for name, values in named.items()
        ),
    )


if __name__ == "__main__":
    end_with(lambda: main(options()), "bench.recorder")
