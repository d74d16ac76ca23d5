"""One clip of 60 s among pictures: how long a training loop waits for the batches with it.

A loop takes batches in order and works a fixed time on each; one batch in so many holds a clip
that takes a hundred times as long to decode as a picture. A torch DataLoader with as many worker
processes as there are CPUs, and as many batches ahead as the loader has, stands beside the loader
without agents, with clips whole and in parts, and with an agent on the same CPUs. All make the
same samples with the same ops. What counts is the wait for a batch, of which most take none: an
agent looks ten seconds ahead, a loader without one further than its queue for what takes long, a
DataLoader as many batches as it may hold.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import pyarrow as pa
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from bench.measuring import Options, Report, options, publish, quotients, spread
from headrace import Loader, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.core.draws import SampleKey
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.dataset.build import build_index
from headrace.dataset.index import DEFAULT_PATH, Index
from headrace.prepare.job import OpenJob, open_job
from headrace.report.blocks import Table
from headrace.storage.opening import open_storage

PIPELINE = Pipeline(
    [ops.DecodeImage(), ops.DecodeVideo(frames=16), ops.RandomResizedCrop(112), ops.ToFloat()]
)
CPUS = len(os.sched_getaffinity(0))
AHEAD = 8
"""Batches that may be ready or in the making."""

LEAST_S = 1e-3
"""A shorter wait counts as so long: what is below is the loop's own [s]."""

AGENT_OPTIONS = ("--workers", str(CPUS), "--cpu-threshold", "1")
"""It minds nobody else: what loads its CPUs is the loop that it works for."""

TITLES = {
    "dataloader": f"torch DataLoader, {CPUS} workers",
    "whole": "headrace, clips whole",
    "parts": "headrace, clips in parts",
    "agent": "headrace, parts by an agent",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    batch: int = 16
    every: int = 20
    """Batches of which one has a clip."""

    clips: int = 6
    """Clips, and so many times ``every`` steps."""

    size: tuple[int, int] = (1280, 720)
    frames: int = 1440
    """Of a clip, 24 a second."""

    step_s: float = 0.1
    """What the loop works on each batch [s]."""

    repeats: int = 3


QUICK = Scale(clips=2, size=(960, 540), step_s=0.04, repeats=1)


@dataclass(frozen=True, slots=True)
class Waits:
    """One run of one contender."""

    seconds: tuple[float, ...]
    """How long each batch was waited for, but for those of the first round [s]."""

    @property
    def p99_s(self) -> float:
        """The 99th percentile [s]."""
        return max(float(np.percentile(self.seconds, 99)), LEAST_S)

    @property
    def total_s(self) -> float:
        """All waits together [s]."""
        return max(sum(self.seconds), LEAST_S)


def main(given: Options) -> None:
    """Measure and report."""
    publish(measure(QUICK if given.quick else Scale()), given.json)


def measure(scale: Scale) -> Report:
    """Run all contenders in turn."""
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        root, whole = Path(folder) / "data", Path(folder) / "whole"
        write_samples(root, scale)
        forget_keyframes(root, whole)
        agent = running.enter_context(LocalAgent([root], options=AGENT_OPTIONS))
        contenders = {
            "dataloader": lambda: torch_batches(root, scale),
            "whole": lambda: own_batches(whole, scale),
            "parts": lambda: own_batches(root, scale),
            "agent": lambda: own_batches(
                root, scale, agents=[agent.address], token=agent.token, require_agents=True
            ),
        }
        runs: dict[str, list[Waits]] = {name: [] for name in contenders}
        for _ in range(scale.repeats):
            for name, batches in contenders.items():
                runs[name].append(waits_of(batches, scale))
    return _report(runs, scale)


def waits_of(open_batches: Callable[[], Iterable[Any]], scale: Scale) -> Waits:
    """Train on two rounds of all samples; the first one is not counted: all is new then."""
    batches, waits = iter(open_batches()), []
    steps = scale.every * scale.clips
    try:
        for _ in range(2 * steps):
            begin = time.perf_counter()
            next(batches)
            waits.append(time.perf_counter() - begin)
            time.sleep(scale.step_s)
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
    return Waits(tuple(waits[steps:]))


def _report(runs: Mapping[str, Sequence[Waits]], scale: Scale) -> Report:
    p99 = {name: [waits.p99_s for waits in found] for name, found in runs.items()}
    total = {name: [waits.total_s for waits in found] for name, found in runs.items()}
    figures = {name: {"p99_s": spread(p99[name]), "wait_s": spread(total[name])} for name in runs}
    return Report(
        name="stragglers",
        settings=msgspec.to_builtins(scale),
        baseline={"dataloader": figures["dataloader"]},
        headrace={name: figures[name] for name in runs if name != "dataloader"},
        ratios={
            "p99": quotients(p99["agent"], p99["dataloader"]),
            "wait": quotients(total["agent"], total["dataloader"]),
            "p99_without_agent": quotients(p99["parts"], p99["dataloader"]),
            "wait_without_agent": quotients(total["parts"], total["dataloader"]),
            "wait_of_parts_vs_whole": quotients(total["parts"], total["whole"]),
        },
        goals=dict.fromkeys(("p99", "wait", "p99_without_agent", "wait_without_agent"), "< 1"),
        table=_table(figures, scale),
        repeats=scale.repeats,
    )


def _table(figures: Mapping[str, Mapping[str, Any]], scale: Scale) -> Table:
    steps = scale.every * scale.clips
    return Table(
        title=f"a clip of {scale.frames / 24:.0f} s in one of {scale.every} batches, {steps} steps",
        columns=("loader", "wait P99 [ms]", "wait, all steps [s]"),
        rows=tuple(
            (
                TITLES[name],
                f"{1e3 * found['p99_s'].median:.0f}",
                f"{found['wait_s'].median:.2f}",
            )
            for name, found in figures.items()
        ),
        emphasis=frozenset({1}),
    )


# The samples


def write_samples(root: Path, scale: Scale) -> None:
    """Write pictures and, last in one of ``every`` batches, a clip; in the order of their names."""
    root.mkdir()
    clip = root / "first.mp4"
    _write_clip(clip, scale)
    picture = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
    for number in range(scale.batch * scale.every * scale.clips):
        if (number + 1) % (scale.batch * scale.every) == 0:
            shutil.copy(clip, root / f"{number:06}.mp4")
        else:
            Image.fromarray(picture).resize((320, 240)).save(root / f"{number:06}.jpg")
    clip.unlink()
    storage = open_storage(str(root))
    build_index(storage).save(storage)


def _write_clip(path: Path, scale: Scale) -> None:
    width, height = scale.size
    texture = np.random.default_rng(1).integers(0, 255, (height // 8, width // 4, 3), np.uint8)
    wide = np.asarray(Image.fromarray(texture).resize((2 * width, height)))
    with av.open(str(path), "w") as output:
        options = {"g": "240", "preset": "ultrafast", "crf": "28"}
        stream = output.add_stream("libx264", rate=24, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(scale.frames):
            begin = abs(3 * number % (2 * width) - width)
            pixels = np.ascontiguousarray(wide[:, begin : begin + width])
            output.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        output.mux(stream.encode())


def forget_keyframes(root: Path, target: Path) -> None:
    """Index the same files as if nobody knew where groups of pictures begin: none is divided."""
    shutil.copytree(root, target, copy_function=os.link)
    storage = open_storage(str(target))
    index = build_index(storage)
    place = index.table.schema.get_field_index("keyframes")
    field = index.table.schema.field(place)
    none = pa.array([[]] * len(index), type=field.type)
    (target / DEFAULT_PATH).unlink()  # a link to the other's
    Index(index.table.set_column(place, field, none), index.meta).save(storage)


# Contenders


def own_batches(root: Path, scale: Scale, **settings: Any) -> Iterator[object]:
    """Yield a loader's batches, epoch after epoch."""
    with Loader(
        str(root),
        pipeline=PIPELINE,
        batch_size=scale.batch,
        order="sequential",
        prefetch_steps=AHEAD,
        workers=CPUS,
        trace=False,
        **settings,
    ) as loader:
        while True:
            yield from loader


def torch_batches(root: Path, scale: Scale) -> Iterator[object]:
    """Yield a DataLoader's batches, epoch after epoch."""
    loader = DataLoader(
        Samples(root),
        batch_size=scale.batch,
        num_workers=CPUS,
        persistent_workers=True,
        prefetch_factor=AHEAD // CPUS or 1,
        collate_fn=list,
    )
    while True:
        yield from loader


class Samples(Dataset[torch.Tensor]):
    """The same work as a map-style dataset; each process opens the files for itself."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._count = len(Index.load(self._root))

    @cached_property
    def _job(self) -> OpenJob:
        index = Index.load(self._root)
        source = SourceSpec(url=self._root, index_digest=index.digest, samples=len(index))
        schedule = ScheduleSpec(seed=0, batch_size=1)
        return open_job(JobSpec(sources=(source,), schedule=schedule, pipeline=PIPELINE.to_json()))

    @cached_property
    def _preparer(self) -> Any:
        return self._job.preparer(0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> torch.Tensor:
        """Return one sample, decoded, cut out and as floats."""
        location, key = self._job.place(number).location, SampleKey(0, 0, number)
        record = self._preparer.prepare(location, key, stop=len(PIPELINE.ops)).record
        return torch.from_numpy(record.get("video", record.get("image")))


if __name__ == "__main__":
    main(options())
