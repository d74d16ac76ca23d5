"""How well ``headrace assess`` foretells a real loop.

The same pictures are measured as the command measures them, and then a real loader feeds a real
loop that sleeps its step time: with one worker and with as many as there are CPUs, with step times
in which one CPU makes a third of a batch and a whole one. Compared are the time of a step, waiting
included, and the CPU of a sample. On a machine that others use as well the first tells of them
too; so it is also told without the time in which the loader's threads were in line for a CPU,
which the kernel counts.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.loader import PIPELINE, write_pictures
from bench.measuring import Options, Report, options, publish, quotients, spread
from headrace import Loader
from headrace.assess.loop import AGENT_WINDOW
from headrace.assess.measuring import Measurement, measure
from headrace.assess.outlook import Settings, outlook
from headrace.demo.cputime import LoadingCpu
from headrace.prepare.profiles import profiles_of
from headrace.report.blocks import Table
from headrace.report.units import counted, percent, seconds
from headrace.transform.program import Program

CPUS = len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    batch: int = 32
    steps: int = 60
    """Steps of one loop that count; some before them do not, as in the simulation."""

    pictures: int = 384
    seconds: float = 10.0
    """Time to measure samples [s]."""

    workers: tuple[int, ...] = tuple(sorted({1, CPUS}))
    step_shares: tuple[float, ...] = (1 / 3, 1.0)
    """Step times, in times that one CPU takes to make a batch."""

    repeats: int = 5


@dataclass(frozen=True, slots=True)
class Run:
    """One loop: a step's time and a sample's CPU, foretold and real."""

    step_s: float
    foretold_s: float
    foretold_share: float
    real_s: float
    real_share: float
    in_line_s: float
    """Of a real step, the time in which its worker threads were in line for a CPU [s]."""

    foretold_cpu_s: float
    real_cpu_s: float

    @property
    def alone_s(self) -> float:
        """Return what a step took less what others' use of the CPUs cost it [s]."""
        return max(self.real_s - self.in_line_s, self.step_s)


def main(given: Options) -> None:
    """Measure and report."""
    quick = Scale(repeats=1, steps=30, seconds=3)
    publish(compare(quick if given.quick else Scale()), given.json)


def compare(scale: Scale) -> Report:
    """Foretell and run each loop, in turn."""
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_pictures(Path(folder), scale.pictures)
        for _ in range(scale.repeats):
            with Loader(folder, pipeline=PIPELINE, batch_size=scale.batch, trace=False) as loader:
                measurement = _measured(loader, scale.seconds)
            cpu_s = _cpu_s(measurement)
            for workers in scale.workers:
                for share in scale.step_shares:
                    name = f"{counted(workers, 'worker')}, works {share:.2f} of a batch"
                    step_s = share * scale.batch * cpu_s
                    run = _run(folder, measurement, scale, workers=workers, step_s=step_s)
                    runs.setdefault(name, []).append(run)
    return _report(runs, scale)


def _measured(loader: Loader, for_s: float) -> Measurement:
    source = loader.job.sources[0]
    assert source.reader is not None
    return measure(source.index, source.reader, Program(PIPELINE), seconds=for_s)


def _cpu_s(measurement: Measurement) -> float:
    return sum(one.cpu_s for one in measurement.samples) / len(measurement.samples)


def _run(
    folder: str, measurement: Measurement, scale: Scale, *, workers: int, step_s: float
) -> Run:
    with Loader(
        folder, pipeline=PIPELINE, batch_size=scale.batch, workers=workers, trace=False
    ) as loader:
        settings = Settings(
            batch_size=scale.batch, step_s=step_s, workers=(workers,), trainer_cpus=CPUS
        )
        profiles = profiles_of([loader.job.sources[0].index])
        stall = outlook(Program(PIPELINE), profiles, measurement, settings).local[0].stall
        begin_s = waited_s = in_line_s = 0.0
        cpu: LoadingCpu | None = None
        for number, wait_s in enumerate(_waits(loader, step_s, AGENT_WINDOW + scale.steps)):
            if number == AGENT_WINDOW - 1:
                cpu, begin_s = LoadingCpu(with_children=False), time.perf_counter()
                in_line_s = _in_line_s()
            elif number >= AGENT_WINDOW:
                waited_s += wait_s
        assert cpu is not None
        passed_s, in_line_s = time.perf_counter() - begin_s, _in_line_s() - in_line_s
    return Run(
        step_s=step_s,
        foretold_s=stall.step_s,
        foretold_share=stall.share,
        real_s=passed_s / scale.steps,
        real_share=waited_s / passed_s,
        in_line_s=in_line_s / (workers * scale.steps),
        foretold_cpu_s=_cpu_s(measurement),
        real_cpu_s=cpu.seconds() / (scale.steps * scale.batch),
    )


def _in_line_s() -> float:
    """Return how long threads of this process that decode were in line for a CPU so far [s]."""
    total_ns = 0
    for thread in threading.enumerate():
        if thread.name.startswith("headrace-decode"):
            told = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
            total_ns += int(told.split()[1])
    return total_ns / 1e9


def _waits(loader: Loader, step_s: float, steps: int) -> Iterator[float]:
    """Run a loop and yield, after each step, what it waited for its batch [s]."""
    made = 0
    while made < steps:
        asked_s = time.perf_counter()
        for _ in loader:
            wait_s = time.perf_counter() - asked_s
            time.sleep(step_s)
            yield wait_s
            made += 1
            if made == steps:
                return
            asked_s = time.perf_counter()


def _report(runs: Mapping[str, Sequence[Run]], scale: Scale) -> Report:
    every = [run for group in runs.values() for run in group]
    return Report(
        name="assess",
        settings=msgspec.to_builtins(scale),
        baseline={
            name: {
                "step_s": spread([run.foretold_s for run in group]),
                "stall_share": spread([run.foretold_share for run in group]),
            }
            for name, group in runs.items()
        },
        headrace={
            name: {
                "step_s": spread([run.real_s for run in group]),
                "stall_share": spread([run.real_share for run in group]),
            }
            for name, group in runs.items()
        },
        ratios={
            "step_vs_foretold": quotients(
                [run.real_s for run in every], [run.foretold_s for run in every]
            ),
            "step_alone_vs_foretold": quotients(
                [run.alone_s for run in every], [run.foretold_s for run in every]
            ),
            "cpu_vs_foretold": quotients(
                [run.real_cpu_s for run in every], [run.foretold_cpu_s for run in every]
            ),
        },
        goals={},
        table=_table(runs),
        repeats=scale.repeats,
    )


def _table(runs: Mapping[str, Sequence[Run]]) -> Table:
    def cells(group: Sequence[Run]) -> tuple[str, ...]:
        return (
            seconds(group[0].step_s),
            seconds(spread([run.foretold_s for run in group]).median),
            seconds(spread([run.real_s for run in group]).median),
            percent(spread([run.foretold_share for run in group]).median),
            percent(spread([run.real_share for run in group]).median),
        )

    return Table(
        title="One step, waiting included: foretold by headrace assess, and real",
        columns=("loop", "works", "step, foretold", "real", "waits, foretold", "in truth"),
        rows=tuple((name, *cells(group)) for name, group in runs.items()),
    )


if __name__ == "__main__":
    main(options())
