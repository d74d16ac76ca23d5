"""A training job on modelled hardware: what is injected is physical, what shows in the trace
follows from it.

Ranks train in step. Each has workers that prepare batches into a queue: they look a file up,
read it in requests, and transform it. Looking up waits for one metadata server, requests for
disks and a link, transforms for cores; all of these serve in order of arrival.
"""  # noqa: D205 - one sentence

from __future__ import annotations

from collections.abc import Generator
from math import ceil
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.diagnosis.engine import Engine, Process
from bench.diagnosis.log import Row, batch_of_rows
from bench.diagnosis.plant import Plant
from bench.diagnosis.setting import Setting
from headrace.analysis.evidence import CACHED
from headrace.trace.events import Kind, Phase

COLLATE_S = 1e-3
"""Assembling a batch [s]."""

CHECKPOINT_FILE = 1 << 40
_SIZES = 4096


class Run(NamedTuple):
    """What a job left."""

    job: str
    rows: list[Row]
    ranks_s: float
    """Time of all ranks [s]."""

    waited_s: float
    """Time that ranks waited for data [s]."""

    checkpoint_s: float
    """Time that they read and saved checkpoints [s]."""

    def events(self) -> pa.RecordBatch:
        """Return the trace."""
        return batch_of_rows(self.job, self.rows)


def run(setting: Setting) -> Run:
    """Run a job to its end."""
    job = _Job(setting)
    job.run()
    return Run(
        job=f"job-{setting.seed}",
        rows=job.rows,
        ranks_s=setting.ranks * max(row.end_s for row in job.rows),
        waited_s=job.spent_s(Kind.WAIT),
        checkpoint_s=job.spent_s(Kind.CHECKPOINT_READ, Kind.CHECKPOINT_SAVE),
    )


class _Job:
    """All ranks, on one plant."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rng = np.random.default_rng(setting.seed)
        self.engine = Engine()
        self.plant = Plant(setting, self.rng)
        self.rows: list[Row] = []
        self.ranks = [_Rank(self, number) for number in range(setting.ranks)]
        spread = setting.size_spread
        sizes = setting.sample_bytes * self.rng.lognormal(-spread * spread / 2, spread, _SIZES)
        self.sizes: list[float] = np.maximum(sizes, 1.0).tolist()
        self._at_barrier: list[Process] = []
        self._orders: dict[tuple[int, int], list[int]] = {}

    def run(self) -> None:
        if self.setting.is_warm:
            self.plant.warm(
                rank.place(one) for rank in self.ranks for one in range(self.setting.dataset)
            )
        for rank in self.ranks:
            self.engine.begin(0.0, rank.train())
        for spell in self.setting.scans:
            self.engine.begin(spell.begin_s, self.plant.scan(spell))
        self.engine.run(lambda: all(rank.is_done for rank in self.ranks))

    def spent_s(self, *kinds: Kind) -> float:
        """Return how long events of some kinds took in all [s]."""
        return sum(row.end_s - row.begin_s for row in self.rows if row.kind in kinds)

    def barrier(self, now: float) -> Generator[float | None, float, float]:
        """Wait until all ranks are here."""
        if len(self._at_barrier) + 1 < len(self.ranks):
            self._at_barrier.append(self.engine.current)
            return (yield None)
        for process in self._at_barrier:
            self.engine.wake(now, process)
        self._at_barrier.clear()
        return now

    def sample(self, number: int) -> int:
        """Return which of its samples is a rank's ``number``-th: each epoch is shuffled anew."""
        setting = self.setting
        grows_at = setting.grows_at * setting.batch
        size, first = setting.dataset, 0
        if grows_at and number >= grows_at:
            size, first = size * setting.grown, grows_at
        epoch, place = divmod(number - first, size)
        if size > setting.steps * setting.batch:
            return place
        key = (size, epoch)
        if key not in self._orders:
            self._orders[key] = self.rng.permutation(size).tolist()
        return self._orders[key][place]


class _Rank:
    """One rank with its workers."""

    def __init__(self, job: _Job, number: int) -> None:
        self._job, self._number = job, number
        self._host = number // job.setting.ranks_per_host
        self._ready: set[int] = set()
        self._next = self._taken = 0
        self._parked: list[Process] = []
        self._waiting: tuple[int, Process] | None = None
        self.is_done = False

    def train(self) -> Process:
        """Load the checkpoint, then take batch after batch."""
        job, setting = self._job, self._job.setting
        now = yield 0.0
        if setting.reads_checkpoint:
            now = yield from self._read_checkpoint(now)
            now = yield from job.barrier(now)
        for _ in range(setting.workers):
            job.engine.begin(now, self._work())
        for step in range(setting.steps):
            asked = now
            if step not in self._ready:
                self._waiting = (step, job.engine.current)
                now = yield None
            self._tell(Kind.WAIT, asked, now, step=step)
            self._take(step, now)
            now = yield now + setting.step_s * (1 + 0.03 * job.rng.standard_normal())
            arrived = now
            now = yield from job.barrier(now)
            if setting.barriers:
                self._tell(Kind.BARRIER, arrived, now, step=step)
            if setting.save_every and (step + 1) % setting.save_every == 0:
                now = yield from self._save_checkpoint(now, step)
                now = yield from job.barrier(now)
            self._tell(Kind.STEP, asked, now, step=step)
        self.is_done = True

    def place(self, sample: int) -> int:
        """Return where one of its samples lies."""
        return self._number << 24 | sample

    def _take(self, step: int, now: float) -> None:
        self._ready.discard(step)
        self._taken += 1
        for process in self._parked:
            self._job.engine.wake(now, process)
        self._parked.clear()

    def _work(self) -> Process:
        """Prepare batches as long as there is room for them."""
        job, setting = self._job, self._job.setting
        now = yield 0.0
        while self._next < setting.steps:
            if self._next >= self._taken + setting.queue:
                self._parked.append(job.engine.current)
                now = yield None
                continue
            step, self._next = self._next, self._next + 1
            now = yield from self._load(now, step)
            self._ready.add(step)
            if self._waiting is not None and self._waiting[0] == step:
                job.engine.wake(now, self._waiting[1])
                self._waiting = None

    def _load(self, now: float, step: int) -> Generator[float | None, float, float]:
        job, setting, begun = self._job, self._job.setting, now
        spent = dict.fromkeys((Kind.METADATA, Kind.RETRIEVAL, Kind.TRANSFORMATION), 0.0)
        nbytes = cached = 0.0
        for number in range(step * setting.batch, (step + 1) * setting.batch):
            sample = job.sample(number)
            size, at = job.sizes[(sample * 31 + self._number) % _SIZES], now
            for _ in range(setting.lookups):
                asked = now
                now = yield from job.plant.look_up(now)
                if not setting.parts:
                    self._tell(Kind.METADATA, asked, now, step=step)
            spent[Kind.METADATA] += now - at
            at = now
            is_cached = job.plant.is_cached(self.place(sample))
            cached += size * is_cached
            now = yield from self._read_file(now, sample, size, step=step, cached=is_cached)
            spent[Kind.RETRIEVAL] += now - at
            at, work_s = now, setting.transform_s * size / setting.sample_bytes
            now = yield job.plant.transform(now, self._host, work_s)
            spent[Kind.TRANSFORMATION] += now - at
            nbytes += size
        now = yield now + COLLATE_S
        counts = ((CACHED, int(cached)),) if setting.tells_cached else None
        self._tell(Kind.LOAD, begun, now, step=step, bytes=int(nbytes), counts=counts)
        if setting.parts:
            self._tell_parts(begun, now, spent, step=step, nbytes=int(nbytes))
        return now

    def _tell_parts(
        self, begun: float, now: float, spent: dict[Kind, float], *, step: int, nbytes: int
    ) -> None:
        count = self._job.setting.batch
        for kind, spent_s in (*spent.items(), (Kind.OVERHEAD, COLLATE_S)):
            of_it = nbytes if kind is Kind.RETRIEVAL else None
            self._tell(kind, begun, now, step=step, duration_s=spent_s, count=count, bytes=of_it)

    def _read_file(
        self, now: float, sample: int, size: float, *, step: int, cached: bool
    ) -> Generator[float | None, float, float]:
        job, setting = self._job, self._job.setting
        place = self.place(sample)
        for piece in range(max(1, ceil(size / setting.request_bytes))):
            offset = piece * setting.request_bytes
            nbytes, begun = min(size - offset, setting.request_bytes), now
            found = yield from job.plant.read(now, self._host, place, nbytes, cached=cached)
            now = found.end_s
            if setting.requests:
                self._tell(
                    Kind.REQUEST, begun, now, step=step, bytes=int(nbytes), offset=int(offset),
                    file=f"data/{self._number}/{sample}", is_write=False,
                    queue_s=found.queued_s if setting.queues else None,
                )  # fmt: skip
        return now

    def _read_checkpoint(self, begun: float) -> Generator[float | None, float, float]:
        setting, now, offset = self._job.setting, begun, 0.0
        while offset < setting.checkpoint_bytes:
            nbytes = min(setting.request_bytes, setting.checkpoint_bytes - offset)
            place = CHECKPOINT_FILE + int(offset) + self._number
            at = now
            found = yield from self._job.plant.read(now, self._host, place, nbytes)
            now = found.end_s
            if setting.requests:
                self._tell(
                    Kind.REQUEST, at, now, bytes=int(nbytes), offset=int(offset),
                    file=f"checkpoint/{self._number}", is_write=False, phase=Phase.INITIALISATION,
                )  # fmt: skip
            offset += nbytes
        self._tell(
            Kind.CHECKPOINT_READ, begun, now,
            bytes=int(setting.checkpoint_bytes), phase=Phase.INITIALISATION,
        )  # fmt: skip
        return now

    def _save_checkpoint(self, begun: float, step: int) -> Generator[float | None, float, float]:
        setting, now, offset = self._job.setting, begun, 0.0
        while offset < setting.checkpoint_bytes:
            nbytes = min(setting.request_bytes, setting.checkpoint_bytes - offset)
            place = CHECKPOINT_FILE + int(offset) + self._number
            now = yield from self._job.plant.write(now, place, nbytes)
            offset += nbytes
        self._tell(Kind.CHECKPOINT_SAVE, begun, now, step=step, bytes=int(setting.checkpoint_bytes))
        return now

    def _tell(self, kind: Kind, begin_s: float, end_s: float, **more: object) -> None:
        row = Row(kind, begin_s, end_s, self._number, f"host-{self._host}", **more)  # type: ignore[arg-type]
        self._job.rows.append(row)
