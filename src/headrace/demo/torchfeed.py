"""A torch DataLoader as careful users write it, over the same samples in the same order.

Worker processes are persistent, batches are prefetched, tensors come through shared
memory, decoding uses the same libraries as headrace. Each sample's bytes are made by the
same ops, so that batches can be compared digest by digest.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from headrace.client.columns import merge, part_of
from headrace.client.config import LoaderConfig
from headrace.client.sources import find_source
from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.core.job import JobSpec
from headrace.core.record import AnyArray, Record
from headrace.demo.feeds import Fed
from headrace.demo.protocol import SegmentEnd, SegmentPlan
from headrace.prepare.job import OpenJob
from headrace.prepare.substitute import Substitutes
from headrace.transform.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class _Sample:
    key: SampleKey
    """What was made; a substitute's own where the scheduled sample is corrupt."""

    record: Record
    replaced: tuple[int, str] | None
    """The corrupt sample and why it was replaced."""


@dataclass(frozen=True, slots=True)
class _Collated:
    columns: dict[str, Any]
    rows: dict[str, torch.Tensor]
    size: int
    replaced: dict[int, str]


class DemoSamples(Dataset[_Sample]):
    """Makes the sample that (id, epoch) names; a map-style dataset.

    The dataset is opened by the first sample that a process is asked for: a store's client
    and its threads belong to one process and do not outlive a fork.
    """

    def __init__(self, plan: SegmentPlan) -> None:
        self._plan = plan

    @cached_property
    def _job(self) -> OpenJob:
        return _open(self._plan)

    @cached_property
    def _substitutes(self) -> Substitutes:
        return Substitutes(self._job)

    def __getitem__(self, visit: tuple[int, int]) -> _Sample:
        """Return a finished sample, or its substitute if it is corrupt."""
        sample, epoch = visit
        key = SampleKey(seed=self._job.spec.schedule.seed, epoch=epoch, sample=sample)
        try:
            return _Sample(key, self._made(key), None)
        except CorruptSampleError as error:
            return self._instead(key, f"{self._job.place(sample).location.key}: {error}")

    def _instead(self, key: SampleKey, reason: str) -> _Sample:
        for other in self._substitutes.of(key):
            try:
                return _Sample(other, self._made(other), (key.sample, reason))
            except CorruptSampleError:
                continue
        raise CorruptSampleError(f"no substitute for sample {key.sample} could be decoded")

    def _made(self, key: SampleKey) -> Record:
        place = self._job.place(key.sample)
        preparer = self._job.preparer(place.source)
        assert preparer is not None, "the demo's dataset is on this machine"
        stop = self._job.program.sample_ops
        return preparer.prepare(place.location, key, stop=stop).record


class TorchFeed:
    """Yields a torch DataLoader's batches from the plan's first step on."""

    def __init__(self, plan: SegmentPlan) -> None:
        torch.set_num_threads(1)
        self._steps = range(plan.first_step, plan.first_step + plan.warmup_steps + plan.steps)
        job = _open(plan)
        self._replaced: dict[int, str] = {}
        self._delivered = 0
        warnings.filterwarnings(
            "ignore", message="This DataLoader will create"
        )  # what is fastest here was measured
        self._loader = DataLoader(
            DemoSamples(plan),
            batch_sampler=[_visits(job, step) for step in self._steps],
            num_workers=plan.workers,
            prefetch_factor=plan.prefetch_factor,
            persistent_workers=True,
            collate_fn=_collate,
            pin_memory=torch.cuda.is_available(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave: the worker processes end with this one."""

    def __iter__(self) -> Iterator[Fed]:
        for step, collated in zip(self._steps, self._loader, strict=True):
            self._replaced |= collated.replaced
            self._delivered += collated.size
            yield _fed(step, collated)

    def ready_batches(self) -> int:
        """Return 0: a DataLoader does not tell."""
        return 0

    def end(self) -> SegmentEnd:
        """Tell what became of the samples; times inside the worker processes are not known."""
        return SegmentEnd(
            wire_bytes=0,
            samples_prepared=0,
            samples_raw={},
            samples_hedged=0,
            samples_local=self._delivered,
            read_s=0.0,
            transform_s=0.0,
            substituted=self._replaced,
        )


def _open(plan: SegmentPlan) -> OpenJob:
    found = find_source(plan.root, None)
    config = LoaderConfig(batch_size=plan.batch_size, seed=plan.seed)
    spec = JobSpec(
        sources=(found.spec,),
        schedule=config.schedule(),
        pipeline=Pipeline.from_json(plan.pipeline).to_json(),
    )
    return OpenJob(spec, [found.open])


def _visits(job: OpenJob, step: int) -> list[tuple[int, int]]:
    batch = job.schedule.batch(step)
    return list(zip(batch.samples.tolist(), batch.epochs.tolist(), strict=True))


def _collate(samples: list[_Sample]) -> _Collated:
    """Stack the samples' fields; runs in the worker processes."""
    records = [{**one.record, "sample": one.key.sample} for one in samples]
    columns, rows = merge([part_of(range(len(records)), records)], len(records))
    return _Collated(
        columns={name: _shared(column) for name, column in columns.items()},
        rows={name: torch.from_numpy(places) for name, places in rows.items()},
        size=len(records),
        replaced=dict(one.replaced for one in samples if one.replaced is not None),
    )


def _shared(column: Any) -> Any:
    return torch.from_numpy(column) if isinstance(column, np.ndarray) else column


def _fed(step: int, collated: _Collated) -> Fed:
    columns = {
        name: column.numpy() if isinstance(column, torch.Tensor) else column
        for name, column in collated.columns.items()
    }

    def rows(field: str) -> AnyArray:
        places = collated.rows.get(field)
        return np.arange(collated.size) if places is None else places.numpy()

    return Fed(step=step, size=collated.size, columns=columns, rows=rows)
