"""``python -m bench.peers``: the same photographs through loaders of others and through headrace.

Each makes batches of normalised random crops of the same JPEGs, on this host, in a process of its
own that takes them in a loop. A step takes half as long again as a bare loop of decoding with
Pillow would take for a batch on all CPUs, so that a loader has to work, and can keep up if it
does little else. Counted is the CPU of the training process and those below it; that of processes
which work for it beside it is told apart. A turn begins without steps, for the rate, which leaves
nothing ready; a loader that keeps up has all ready again before waits and CPU count. Contenders
take turns, and are stopped in those of others.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from bench.loader import write_pictures
from bench.measuring import Options, Report, end_with, options, publish, quotients, spread
from bench.peers.contenders import CONTENDERS, CPUS, Contender
from bench.peers.driving import Loop, Running
from bench.peers.serving import BATCH, READY, Settings
from bench.pictures import SIDE, write_crop
from headrace.core.errors import RemoteError
from headrace.report.blocks import Table

LEAST_S = 1e-3
"""A shorter wait counts as so long: what is below is the loop's own [s]."""

EASE = 1.5
"""A step takes so many times as long as decoding its batch takes all CPUs."""

AGENT = "headrace_agent"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    pictures: int = 384
    flat_out: int = 40
    """Steps without a pause, behind those that were ready: the rate."""

    warm: int = 80
    """Steps of the loop before those that count."""

    steps: int = 120

    tries: bool = True
    """Whether contenders are tuned, or have the settings that proved best here."""

    repeats: int = 3


QUICK = Scale(flat_out=16, warm=48, steps=64, tries=False, repeats=1)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one contender."""

    loop: Loop
    samples_per_s: float
    """Without steps."""

    @property
    def samples(self) -> int:
        """Samples of the loop."""
        return len(self.loop.waits_s) * BATCH

    @property
    def samples_per_cpu_s(self) -> float:
        """Samples for a second of the trainer's CPU."""
        return self.samples / self.loop.cpu.trainer_s

    @property
    def p99_s(self) -> float:
        """The 99th percentile of waits [s]."""
        return max(float(np.percentile(self.loop.waits_s, 99)), LEAST_S)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found."""

    step_s: float
    chosen: Mapping[str, Settings]
    turns: Mapping[str, Sequence[Turn]]
    left_out: Mapping[str, str]
    """Contender → why it could not take part."""


def main(given: Options) -> None:
    """Measure and report; a call to end ends contenders too, most of which are stopped then."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    scale = QUICK if given.quick else Scale()
    publish(report(measure(CONTENDERS, scale), scale), given.json)


def measure(contenders: Mapping[str, Contender], scale: Scale) -> Measured:
    """Start all contenders and give them turns."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root, log = Path(folder, "photos"), Path(folder, "log")
        root.mkdir()
        step_s = EASE * decoding_s(write_pictures(root, scale.pictures)) * BATCH / CPUS
        running: dict[str, Running] = {}
        chosen: dict[str, Settings] = {}
        left_out: dict[str, str] = {}
        for name, contender in contenders.items():
            try:
                chosen[name] = _chosen(contender, root, log, scale)
                running[name] = stack.enter_context(_start(contender, chosen[name], root, log))
                with running[name].awake():
                    running[name].take(scale.warm)
            except RemoteError as error:
                left_out[name] = str(error)
        turns = _turns(running, scale, step_s)
        return Measured(step_s, chosen, turns, left_out)


def decoding_s(files: Sequence[Path]) -> float:
    """Return what a bare loop takes for a picture, in CPU time [s]; the first round warms it up."""
    draw, out = Random(0), np.empty((3, SIDE, SIDE), np.float32)
    data = [file.read_bytes() for file in files]
    for _ in range(2):
        begin_s = time.thread_time()
        for one in data:
            write_crop(one, draw, out)
        spent_s = time.thread_time() - begin_s
    return spent_s / len(data)


def _chosen(contender: Contender, root: Path, log: Path, scale: Scale) -> Settings:
    """Return the settings with the highest rate."""
    if not scale.tries or len(contender.tried) == 1:
        return contender.tried[0]
    rates = []
    for settings in contender.tried:
        with _start(contender, settings, root, log) as running:
            rates.append(_rate(running, scale.flat_out))
    return contender.tried[int(np.argmax(rates))]


def _start(contender: Contender, settings: Settings, root: Path, log: Path) -> Running:
    module = f"bench.peers.{contender.module}"
    return Running(contender.python(), module, root, settings, log)


def _rate(running: Running, steps: int) -> float:
    """Return samples a second, without what was ready before."""
    running.take(3 * READY)
    return steps * BATCH / sum(running.take(steps))


def _turns(running: Mapping[str, Running], scale: Scale, step_s: float) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {name: [] for name in running}
    for _ in range(scale.repeats):
        for name, one in running.items():
            with one.awake():
                rate = _rate(one, scale.flat_out)
                one.take(scale.warm, step_s)
                turns[name].append(Turn(one.loop(scale.steps, step_s), rate))
    return turns


# The report


def report(found: Measured, scale: Scale) -> Report:
    """Return figures of all, and headrace's against the others'."""
    figures = {name: _figures(turns) for name, turns in found.turns.items()}
    own = {name for name in figures if name.startswith("headrace")}
    return Report(
        name="peers",
        settings={
            **msgspec.to_builtins(scale),
            "batch": BATCH,
            "step_s": found.step_s,
            "chosen": dict(found.chosen),
            "left_out": dict(found.left_out),
        },
        baseline={name: figures[name] for name in figures if name not in own},
        headrace={name: figures[name] for name in own},
        ratios=dict(_ratios(found.turns)),
        goals=dict.fromkeys((f"vs_{name}" for name in figures), "≥ 1")
        | dict.fromkeys((f"p99_vs_{name}" for name in figures), "≤ 1"),
        table=_table(found, figures),
        repeats=scale.repeats,
    )


def _figures(turns: Sequence[Turn]) -> dict[str, Any]:
    return {
        "samples_per_cpu_s": spread([turn.samples_per_cpu_s for turn in turns]),
        "other_cpu_s_per_sample": spread([turn.loop.cpu.other_s / turn.samples for turn in turns]),
        "p99_s": spread([turn.p99_s for turn in turns]),
        "wait_s": spread([sum(turn.loop.waits_s) for turn in turns]),
        "samples_per_s": spread([turn.samples_per_s for turn in turns]),
    }


def _ratios(turns: Mapping[str, Sequence[Turn]]) -> Iterator[tuple[str, Any]]:
    """Yield each peer's rival, and the agent where that is another, against it."""
    peers = [name for name in turns if not name.startswith("headrace")]
    cpu = {name: [one.samples_per_cpu_s for one in found] for name, found in turns.items()}
    p99 = {name: [one.p99_s for one in found] for name, found in turns.items()}
    for name in peers:
        yield f"vs_{name}", quotients(cpu[CONTENDERS[name].rival], cpu[name])
    for name in peers:
        yield f"p99_vs_{name}", quotients(p99[CONTENDERS[name].rival], p99[name])
    for name in peers:
        if CONTENDERS[name].rival != AGENT:
            yield f"agent_vs_{name}", quotients(cpu[AGENT], cpu[name])


def _table(found: Measured, figures: Mapping[str, Mapping[str, Any]]) -> Table:
    absent = "; ".join(f"left out: {name}, {why}" for name, why in found.left_out.items())
    return Table(
        title=f"JPEG → random crop → floats, a step of {1e3 * found.step_s:.0f} ms",
        columns=(
            "loader", "samples / CPU s", "min", "max", "other CPU [ms]", "P99 [ms]", "samples / s",
        ),
        rows=tuple(
            (
                CONTENDERS[name].title,
                *(f"{getattr(one['samples_per_cpu_s'], what):.0f}"
                  for what in ("median", "min", "max")),
                f"{1e3 * one['other_cpu_s_per_sample'].median:.2f}",
                f"{1e3 * one['p99_s'].median:.1f}",
                f"{one['samples_per_s'].median:.0f}",
            )
            for name, one in figures.items()
        ),
        note="CPU s: of the training process; other CPU: per sample, of those beside it; P99: of "
        f"waits; samples / s: without steps. {absent}".strip(),
        emphasis=frozenset({1}),
    )  # fmt: skip


if __name__ == "__main__":
    end_with(lambda: main(options()), "bench.peers")
