"""What ``headrace trace run`` costs a program: the same DataLoader loop traced and untraced.

Photographs are decoded in workers, as in a job whose loading is work; texts of 4 KB are only read,
in the loop's own process, which is the most that tracing can cost: three events for each file of
a few microseconds. Starting the program, importing torch and the first seconds do not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from bench.measuring import (
    Options,
    Report,
    Spent,
    interleaved,
    options,
    publish,
    quotients,
    spread,
)
from headrace.report.blocks import Table

_PROGRAM = str(Path(__file__).with_name("traced_loop.py"))
_SIDE = 512
_TEXT_BYTES = 4096
_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """One kind of program."""

    kind: str
    """``photos`` or ``texts``."""

    workers: int
    samples: int
    epochs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    photos: Loop = Loop(kind="photos", workers=2, samples=512, epochs=5)
    texts: Loop = Loop(kind="texts", workers=0, samples=2048, epochs=60)
    repeats: int = 9


def main(given: Options) -> None:
    """Measure and report."""
    publish(measure(Scale(repeats=1) if given.quick else Scale()), given.json)


def measure(scale: Scale) -> Report:
    """Run both kinds of program both ways."""
    loops = {"photos": scale.photos, "texts": scale.texts}
    runs = {name: _runs(loop, scale.repeats) for name, loop in loops.items()}
    figures = {name: _figures(loop, runs[name]) for name, loop in loops.items()}
    return Report(
        name="tracing",
        settings=msgspec.to_builtins(scale),
        baseline={name: found["untraced"] for name, found in figures.items()},
        headrace={name: found["traced"] for name, found in figures.items()},
        ratios={
            f"throughput_{name}": quotients(
                [run.wall_s for run in found["untraced"]], [run.wall_s for run in found["traced"]]
            )
            for name, found in runs.items()
        },
        goals={"throughput_photos": "≥ 0.97"},
        table=_table(figures),
        repeats=scale.repeats,
    )


def _runs(loop: Loop, repeats: int) -> dict[str, list[Spent]]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as place:
        folder = Path(place)
        _write_samples(folder / "samples", loop)
        traced = [sys.executable, "-m", "headrace", "trace", "run", "-o", str(folder / "trace")]
        return interleaved(
            {"untraced": _run(folder, loop, []), "traced": _run(folder, loop, [*traced, "--"])},
            repeats,
        )


def _run(folder: Path, loop: Loop, before: list[str]) -> Callable[[], Spent]:
    result = folder / "result"
    loop_of = [str(folder / "samples"), loop.kind, str(loop.workers), str(loop.epochs)]
    command = [*before, sys.executable, _PROGRAM, *loop_of, str(result)]

    def run() -> Spent:
        times = os.times()
        subprocess.run(command, check=True, timeout=_TIMEOUT_S, stderr=subprocess.DEVNULL)
        after = os.times()
        cpu_s = sum(after[2:4]) - sum(times[2:4])
        return Spent(float(result.read_text()), cpu_s)

    return run


def _write_samples(folder: Path, loop: Loop) -> None:
    folder.mkdir()
    draws = np.random.default_rng(7)
    for number in range(loop.samples):
        if loop.kind == "texts":
            (folder / f"{number:06}.txt").write_bytes(draws.bytes(_TEXT_BYTES))
        else:
            coarse = draws.integers(0, 255, (_SIDE // 8, _SIDE // 8, 3), np.uint8)
            Image.fromarray(coarse).resize((_SIDE, _SIDE)).save(folder / f"{number:06}.jpg")


def _figures(loop: Loop, runs: Mapping[str, list[Spent]]) -> dict[str, Any]:
    samples = loop.samples * loop.epochs
    return {
        name: {"samples_per_s": spread([samples / run.wall_s for run in found])}
        for name, found in runs.items()
    }


def _table(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    return Table(
        title="A DataLoader loop under headrace trace run",
        columns=("program", "way", "samples/s", "min", "max"),
        rows=tuple(
            (
                name,
                way,
                *(
                    f"{getattr(found['samples_per_s'], what):,.0f}"
                    for what in ("median", "min", "max")
                ),
            )
            for name, ways in figures.items()
            for way, found in ways.items()
        ),
    )


if __name__ == "__main__":
    main(options())
