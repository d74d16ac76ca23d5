"""Carries the demo out: dataset, calibration, agents, and the two loaders in turns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from msgspec.structs import replace

from headrace import ops
from headrace.agent.local import LocalAgent
from headrace.core.errors import NotFoundError
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.demo import calibration as calibrating
from headrace.demo.calibration import Calibration, calibrate
from headrace.demo.children import host_work
from headrace.demo.comparison import Comparison
from headrace.demo.dataset import DemoDataset, build_dataset
from headrace.demo.meter import CpuMeter
from headrace.demo.page import AGENTS, HOST_WORK
from headrace.demo.premise import (
    Cpus,
    Premise,
    just_in_time_step,
    premise_line,
    share_cpus,
    steps_in,
)
from headrace.demo.protocol import Mode, SegmentPlan
from headrace.demo.recipes import DatasetSize, plan_dataset
from headrace.demo.result import DemoResult
from headrace.demo.segments import SegmentRunner
from headrace.demo.sources import carried_sources
from headrace.demo.view import View
from headrace.report.provenance import Provenance, provenance
from headrace.report.units import bytes_
from headrace.storage.opening import open_storage
from headrace.transform.pipeline import Pipeline
from headrace.wire.auth import new_token

TRAINER_NICE = 10
"""Added to the trainers' priority value, for both loaders alike: the host work keeps its share."""

LINK = "HTTP over loopback"
FIRST_STEP = 8
"""Emulated time of a segment's first step, in steps: a job's first step compiles and allocates,
and every loader works ahead meanwhile. It is one of the warm-up steps and not counted."""

MOST_AGENTS = 2
GAP_STEPS = 64
"""Steps left out between pairs of segments, so that no agent has prepared the next ones already."""

BASELINE, HEADRACE = "baseline", "headrace"


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoSettings:
    """What a person may choose."""

    directory: Path = field(default_factory=lambda: Path("headrace-demo"))
    """Where dataset and report are kept."""

    size: DatasetSize = field(default_factory=DatasetSize)
    torch: bool = False
    """Compare with a torch DataLoader, and train a small torch model."""

    seed: int = 7
    batch_size: int = 8
    host_work: float = 0.75
    """Share of the trainer's CPUs that the model's own work takes."""

    budget_s: float = 19.0
    """Time for the counted steps of the main comparison, both loaders together [s]."""

    pairs: int = 2
    """Segments of each loader in the main comparison."""

    warmup_steps: int = 4
    """Steps at the start of each segment that are not counted, for either loader."""

    calibration_steps: int = 11
    off_steps: int = 16
    """Steps of each loader with the premise off."""


def quick_settings(directory: Path, *, torch: bool) -> DemoSettings:
    """Return what ``--quick`` runs: fewer steps and repeats, never another method."""
    return DemoSettings(
        directory=directory, torch=torch, budget_s=8.0, pairs=1, calibration_steps=6, off_steps=8
    )


def demo_pipeline() -> Pipeline:
    """Return what is done to every sample: crops of photographs, eight frames of a clip, text."""
    return Pipeline(
        [
            ops.DecodeImage(),
            ops.DecodeVideo(frames=8, sampling="random"),
            ops.DecodeText(),
            ops.RandomResizedCrop(224, fields=("image",)),
            ops.RandomResizedCrop(112, fields=("video",)),
            ops.RandomHorizontalFlip(),
            ops.ToFloat(),
            ops.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        ]
    )


def run_demo(settings: DemoSettings, view: View) -> DemoResult:
    """Run the whole demo; when this returns or raises, no process of it is left.

    Raises:
        HeadraceError: a part of it failed; the message says which and what to do.
    """
    made_at = provenance()
    cpus = share_cpus(sorted(os.sched_getaffinity(0)))
    dataset = _dataset(settings, view, workers=len({*cpus.trainer, *cpus.storage}))
    with _running_on(cpus.storage):
        return _Demo(settings, view, cpus, dataset).run(made_at)


def _dataset(settings: DemoSettings, view: View, *, workers: int) -> DemoDataset:
    sources = carried_sources()
    dataset = build_dataset(
        settings.directory,
        sources=sources,
        recipes=plan_dataset(sources, settings.size, seed=settings.seed),
        progress=lambda done, total: view.progress("dataset", done, total),
        workers=workers,
    )
    _index(dataset)
    size = bytes_(dataset.size_bytes)
    view.note(f"dataset: {dataset.samples} samples, {size}, in {dataset.root}")
    return dataset


def _index(dataset: DemoDataset) -> None:
    storage = open_storage(str(dataset.root))
    try:
        previous: Index | None = Index.load(storage)
    except NotFoundError:
        previous = None
    build_index(storage, previous=previous).save(storage)


@contextmanager
def _running_on(cpus: tuple[int, ...]) -> Iterator[None]:
    """Keep this process, and the agents it starts, off the trainer's CPUs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class _Demo:
    """One demo on a dataset that is there."""

    def __init__(
        self, settings: DemoSettings, view: View, cpus: Cpus, dataset: DemoDataset
    ) -> None:
        self._settings = settings
        self._view = view
        self._cpus = cpus
        self._dataset = dataset
        self._pipeline = demo_pipeline().to_json()
        self._meter = CpuMeter({"trainer": cpus.trainer, "storage": cpus.storage})
        self._runner = SegmentRunner(view, self._meter)

    def run(self, made_at: Provenance) -> DemoResult:
        """Calibrate, then compare under the premise and without it."""
        idle = _idle_share(self._cpus.storage)
        with self._agents() as agents:
            found = self._calibrated()
            premise = Premise(
                cpus=self._cpus,
                host_work=self._settings.host_work,
                storage_idle=idle,
                step_s=just_in_time_step(found.prepare_batch_s),
                link=LINK,
            )
            template = self._plan(found.best_workers, agents)
            main = self._main(premise, template, found.prepare_batch_s)
            premise_off = replace(premise, host_work=0.0, step_s=0.0)
            off = self._off(premise_off, template, after=main)
        return DemoResult(
            provenance=made_at,
            dataset=self._dataset,
            pipeline=self._pipeline,
            baseline_name=self._baseline_name(found.best_workers),
            tuning=found.told(),
            premise=premise,
            main=main,
            premise_off=premise_off,
            off=off,
            cpu=tuple(self._meter.samples),
            agents=len(agents),
            prepare_batch_s=found.prepare_batch_s,
        )

    def _calibrated(self) -> Calibration:
        settings = self._settings
        template = replace(self._plan(1, []), steps=settings.calibration_steps)
        plans = calibrating.calibration_plans(template, self._cpus.storage)
        self._view.runs({calibrating.NAME: sum(plan.steps + plan.warmup_steps for plan in plans)})
        return calibrate(template, self._cpus.storage, self._runner)

    def _main(self, premise: Premise, template: SegmentPlan, prepare_batch_s: float) -> Comparison:
        settings = self._settings
        steps = steps_in(
            settings.budget_s / settings.pairs,
            step_s=premise.step_s,
            prepare_batch_s=prepare_batch_s,
            host_work=premise.host_work,
        )
        self._view.note(f"premise: {premise_line(premise)}")
        return self._compare(premise, template, first_step=0, steps=steps, pairs=settings.pairs)

    def _off(self, premise: Premise, template: SegmentPlan, *, after: Comparison) -> Comparison:
        self._view.note(f"premise off: {premise_line(premise)}")
        first = after.segments[-1].steps[-1].step + GAP_STEPS
        steps = self._settings.off_steps
        return self._compare(premise, template, first_step=first, steps=steps, pairs=1)

    def _compare(
        self,
        premise: Premise,
        template: SegmentPlan,
        *,
        first_step: int,
        steps: int,
        pairs: int,
    ) -> Comparison:
        """Run both loaders in turns over the same steps."""
        length = self._settings.warmup_steps + steps
        stride = length + GAP_STEPS
        self._view.runs({BASELINE: pairs * length, HEADRACE: pairs * length})
        plan = replace(
            template,
            steps=steps,
            step_s=premise.step_s,
            first_step_s=FIRST_STEP * premise.step_s,
        )
        segments = []
        with host_work(premise.host_work, self._cpus.trainer) as pids:
            self._meter.watch(HOST_WORK, pids)
            for pair in range(pairs):
                there = replace(plan, first_step=first_step + pair * stride)
                baseline = replace(there, mode=self._baseline_mode, agents=())
                segments.append(self._runner.run(baseline, BASELINE))
                segments.append(self._runner.run(replace(there, mode="headrace"), HEADRACE))
            self._meter.forget(HOST_WORK)
        return Comparison(segments=tuple(segments))

    @contextmanager
    def _agents(self) -> Iterator[list[LocalAgent]]:
        """Run the storage side: up to two agents, each on CPUs of its own."""
        count = min(MOST_AGENTS, len(self._cpus.storage))
        token, log_path = new_token(), self._settings.directory / "agents.log"
        with ExitStack() as stack:
            log = stack.enter_context(log_path.open("wb"))
            agents = [
                stack.enter_context(
                    LocalAgent(
                        [self._dataset.root],
                        token=token,
                        options=("--workers", str(len(cpus))),
                        cpus=cpus,
                        stderr=log,
                    )
                )
                for cpus in (self._cpus.storage[place::count] for place in range(count))
            ]
            self._meter.watch(AGENTS, [agent.pid for agent in agents])
            yield agents
            self._meter.forget(AGENTS)

    def _plan(self, workers: int, agents: list[LocalAgent]) -> SegmentPlan:
        settings = self._settings
        return SegmentPlan(
            mode=self._baseline_mode,
            root=str(self._dataset.root),
            pipeline=self._pipeline,
            batch_size=settings.batch_size,
            seed=settings.seed,
            first_step=0,
            warmup_steps=settings.warmup_steps,
            steps=settings.calibration_steps,
            step_s=0.0,
            first_step_s=0.0,
            workers=workers,
            cpus=self._cpus.trainer,
            nice=TRAINER_NICE,
            agents=tuple(agent.address for agent in agents),
            token=agents[0].token if agents else None,
            model=settings.torch,
        )

    @property
    def _baseline_mode(self) -> Mode:
        return "torch" if self._settings.torch else "local"

    def _baseline_name(self, workers: int) -> str:
        kind, unit = (
            ("a torch DataLoader", "worker process")
            if self._settings.torch
            else ("decoding on the trainer", "thread")
        )
        plural = "" if workers == 1 else "es" if unit.endswith("s") else "s"
        return f"{kind} with {workers} {unit}{plural}"


def _idle_share(cpus: tuple[int, ...]) -> float:
    busy: list[float] = psutil.cpu_percent(interval=0.5, percpu=True)
    return 1 - sum(busy[cpu] for cpu in cpus) / len(cpus) / 100
