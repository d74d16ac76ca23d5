"""One host, no agent: samples per core second against a DataLoader, SPDL and a bare loop.

All read the same JPEGs with Pillow and make the same random crops of them, as normalised
floats in batches. The bare loop is one thread that does nothing else; as many of it as there are
CPUs show what a core is worth where the others work too. torch's DataLoader has
persistent workers and SPDL's pipeline threads, each of which makes whole batches as that costs
it less than single samples, in the numbers that prove fastest here. Rates are per
second of CPU, since on a shared machine only that is a contender's own; the wall clock is
reported beside it.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import torch
from PIL import Image
from spdl.pipeline import PipelineBuilder
from torch.utils.data import DataLoader, Dataset

from bench.measuring import (
    Options,
    Report,
    Spent,
    interleaved,
    options,
    publish,
    quotients,
    spent_on,
    spread,
)
from bench.pictures import MEAN, SIDE, STD, normalised
from headrace import Loader, Pipeline, ops
from headrace.client.batch import Batch
from headrace.core.draws import Draws, SampleKey
from headrace.demo.encode import photo_bytes
from headrace.demo.recipes import PhotoRecipe
from headrace.demo.sources import carried_sources
from headrace.report.blocks import Table
from headrace.transform.window import Window

CROP = ops.RandomResizedCrop(SIDE)
PIPELINE = Pipeline(
    [ops.DecodeImage(), CROP, ops.RandomHorizontalFlip(), ops.ToFloat(), ops.Normalize(MEAN, STD)]
)
FILL_TIMEOUT_S = 120.0
LOOK_S = 0.02
"""Time between two looks at the queue: each wakes a thread, whose CPU is counted [s]."""

CPUS = len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    batch: int = 32
    steps: int = 12
    """Batches of one run."""

    pictures: int = 384
    workers: tuple[int, ...] = (1, CPUS, CPUS + 1)
    """Numbers of the DataLoader's workers and of SPDL's threads that are tried."""

    repeats: int = 9


def main(given: Options) -> None:
    """Measure and report."""
    publish(measure(Scale(repeats=3) if given.quick else Scale()), given.json)


def measure(scale: Scale) -> Report:
    """Run the bare loop, the DataLoader and headrace in turn."""
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    with tempfile.TemporaryDirectory() as folder:
        files = write_pictures(Path(folder), scale.pictures)
        tasks = _tasks(files, scale.steps * scale.batch)
        workers = _fastest(lambda count: _torch_epoch(tasks, scale, count), scale)
        threads = _fastest(lambda count: _spdl_epoch(tasks, scale, count), scale)
        torch_epoch = _torch_epoch(tasks, scale, workers)
        spdl_epoch = _spdl_epoch(tasks, scale, threads)
        with closing(Loader(folder, pipeline=PIPELINE, batch_size=scale.batch)) as loader:
            runs = interleaved(
                {
                    "bare_loop": lambda: spent_on(lambda: _bare_loop(tasks, scale.batch)),
                    "bare_loops": lambda: spent_on(lambda: _bare_loops(tasks, scale.batch)),
                    "dataloader": lambda: spent_on(torch_epoch, with_children=True),
                    "spdl": lambda: spent_on(spdl_epoch),
                    "headrace": _own(loader, scale.steps),
                },
                scale.repeats,
            )
    return _report(runs, scale, {"dataloader": workers, "spdl": threads})


def _report(
    runs: Mapping[str, Sequence[Spent]], scale: Scale, fastest: Mapping[str, int]
) -> Report:
    samples = scale.steps * scale.batch
    cpu = {name: [one.cpu_s for one in spent] for name, spent in runs.items()}
    wall = {name: [one.wall_s for one in spent] for name, spent in runs.items()}
    figures = {
        name: {
            "samples_per_cpu_s": spread([samples / one.cpu_s for one in spent]),
            "samples_per_wall_s": spread([samples / one.wall_s for one in spent]),
        }
        for name, spent in runs.items()
    }
    return Report(
        name="loader",
        settings={
            **msgspec.to_builtins(scale),
            "dataloader_workers": fastest["dataloader"],
            "spdl_threads": fastest["spdl"],
        },
        baseline={name: figures[name] for name in figures if name != "headrace"},
        headrace=figures["headrace"],
        ratios={
            "vs_bare_loop": quotients(cpu["bare_loop"], cpu["headrace"]),
            "vs_bare_loops": quotients(cpu["bare_loops"], cpu["headrace"]),
            "vs_dataloader": quotients(cpu["dataloader"], cpu["headrace"]),
            "vs_spdl": quotients(cpu["spdl"], cpu["headrace"]),
            "wall_vs_dataloader": quotients(wall["dataloader"], wall["headrace"]),
            "wall_vs_spdl": quotients(wall["spdl"], wall["headrace"]),
        },
        goals={"vs_bare_loop": "≥ 0.9", "vs_dataloader": "≥ 1", "vs_spdl": "≥ 1"},
        table=_table(figures, fastest),
        repeats=scale.repeats,
    )


def _table(figures: Mapping[str, Mapping[str, Any]], fastest: Mapping[str, int]) -> Table:
    titles = {
        "bare_loop": "bare decoder loop, 1 thread",
        "bare_loops": f"bare decoder loops, {CPUS} threads",
        "dataloader": f"torch DataLoader, {fastest['dataloader']} workers",
        "spdl": f"SPDL, {fastest['spdl']} threads",
        "headrace": "headrace, threads in process",
    }
    return Table(
        title="JPEG → random crop → floats, no agent",
        columns=("loader", "samples / core s", "min", "max", "samples / s"),
        rows=tuple(
            (
                titles[name],
                *(f"{getattr(found['samples_per_cpu_s'], what):.0f}"
                  for what in ("median", "min", "max")),
                f"{found['samples_per_wall_s'].median:.0f}",
            )
            for name, found in figures.items()
        ),
        emphasis=frozenset({1}),
    )  # fmt: skip


# The same work for all


@dataclass(frozen=True, slots=True)
class Task:
    """One picture and its crop, drawn beforehand as headrace draws it."""

    file: Path
    window: Window
    flip: bool


def write_pictures(root: Path, count: int) -> list[Path]:
    """Write JPEGs of ImageNet's usual sizes, made of real photographs."""
    photos = [source for source in carried_sources() if source.media == "photo"]
    sizes = ((500, 375), (500, 333), (375, 500), (640, 480))
    files = []
    for number in range(count):
        source, (width, height) = photos[number % len(photos)], sizes[number % len(sizes)]
        recipe = PhotoRecipe(
            file=f"{number:04}.jpg", source=source.name, width=width, height=height,
            left=number % 7 / 6, top=number % 5 / 4,
        )  # fmt: skip
        with Image.open(source.path) as image:
            data = photo_bytes(recipe, image.convert("RGB"))
        files.append(root / recipe.file)
        files[-1].write_bytes(data)
    return files


def _tasks(files: Sequence[Path], count: int) -> list[Task]:
    return [_task(files[number % len(files)], number) for number in range(count)]


def _task(file: Path, number: int) -> Task:
    key = SampleKey(0, 0, number)
    with Image.open(file) as image:
        window = CROP.window(*image.size, Draws(key, 1))
    return Task(file, window, Draws(key, 2).chance(0.5))


def decoded(task: Task) -> Image.Image:
    """Decode with plain Pillow, scaled in the DCT where the crop allows; cut as headrace cuts."""
    with Image.open(task.file) as image:
        scale = task.window.scale()
        if scale > 1:
            image.draft(None, (image.width // scale, image.height // scale))
        crop = task.window.apply(image, scale=scale)
    return crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if task.flip else crop


# Contenders


def _bare_loop(tasks: Sequence[Task], batch: int) -> None:
    block = np.empty((batch, 3, SIDE, SIDE), np.float32)
    for number, task in enumerate(tasks):
        normalised(decoded(task), block[number % batch])


def _bare_loops(tasks: Sequence[Task], batch: int) -> None:
    with ThreadPoolExecutor(CPUS) as threads:
        for loop in [threads.submit(_bare_loop, tasks[n::CPUS], batch) for n in range(CPUS)]:
            loop.result()


class Pictures(Dataset[torch.Tensor]):
    """The same work as a map-style dataset."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, number: int) -> torch.Tensor:
        """Return one normalised crop."""
        out = np.empty((3, SIDE, SIDE), np.float32)
        normalised(decoded(self._tasks[number]), out)
        return torch.from_numpy(out)


def _torch_epoch(tasks: Sequence[Task], scale: Scale, workers: int) -> Callable[[], None]:
    loader = DataLoader(
        Pictures(tasks),
        batch_size=scale.batch,
        num_workers=workers,
        persistent_workers=True,
        prefetch_factor=4,
    )

    def epoch() -> None:
        for _ in loader:
            pass

    return epoch


def _spdl_epoch(tasks: Sequence[Task], scale: Scale, threads: int) -> Callable[[], None]:
    batches = [tasks[at : at + scale.batch] for at in range(0, len(tasks), scale.batch)]

    def epoch() -> None:
        pipeline = (
            PipelineBuilder()
            .add_source(batches)
            .pipe(_made, concurrency=threads, output_order="input")
            .add_sink(4)
            .build(num_threads=threads)
        )
        with pipeline.auto_stop():
            for _ in pipeline:
                pass

    return epoch


def _made(tasks: Sequence[Task]) -> np.ndarray:
    block = np.empty((len(tasks), 3, SIDE, SIDE), np.float32)
    for task, row in zip(tasks, block, strict=True):
        normalised(decoded(task), row)
    return block


def _fastest(epoch_of: Callable[[int], Callable[[], None]], scale: Scale) -> int:
    """Return the number of workers with the highest rate; each is warmed up and run twice."""
    seconds: dict[int, float] = {}
    for workers in scale.workers:
        epoch = epoch_of(workers)
        epoch()
        seconds[workers] = median(spent_on(epoch).wall_s for _ in range(2))
    return min(seconds, key=lambda workers: seconds[workers])


def _own(loader: Loader, steps: int) -> Callable[[], Spent]:
    """Return what takes ``steps`` batches; the queue is full before and after."""
    batches = endless(loader)
    next(batches)

    def run() -> None:
        for _ in range(steps):
            next(batches)
        fill(loader)

    def spent() -> Spent:
        fill(loader)
        return spent_on(run)

    return spent


def endless(loader: Loader) -> Iterator[Batch]:
    """Yield batches epoch after epoch."""
    while True:
        yield from loader


def fill(loader: Loader) -> None:
    """Wait until a loader has made all that it may make ahead."""
    deadline = time.monotonic() + FILL_TIMEOUT_S
    while not _is_full(loader):
        if time.monotonic() > deadline:
            raise TimeoutError("the queue did not fill; is the machine overloaded?")
        time.sleep(LOOK_S)


def _is_full(loader: Loader) -> bool:
    found = loader.statistics().background.prefetch
    return not found.making_steps and found.ready_steps == loader.config.prefetch_steps


if __name__ == "__main__":
    main(options())
