"""Jobs over a small tar of texts, and progress that tests make up."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.agent.atlas import Atlas
from headrace.agent.fasttier.file import FastFile, disk_file, memory_file
from headrace.agent.fasttier.through import fetch
from headrace.agent.fasttier.tier import FastTier, Trip
from headrace.agent.jobs import Proof, ServedJob, ServedSource
from headrace.agent.plan import AgentPlan
from headrace.agent.roots import Located
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.core.roster import RosterEntry
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.policy.lookahead_events import Visit
from headrace.prepare.job import OpenJob, open_job
from headrace.storage.opening import open_storage
from headrace.transform.pipeline import Pipeline
from headrace.wire.messages import Fingerprint, RegisterJob

SAMPLE_BYTES = 2000
"""Length of each text."""

ROOM_BYTES = 2560
"""What a text takes in the fast tier."""


def text_of(number: int, nbytes: int = SAMPLE_BYTES) -> bytes:
    return f"{number:06} ".encode() * (nbytes // 7) + b"." * (nbytes % 7)


def make_texts(root: Path, count: int = 64, nbytes: int = SAMPLE_BYTES, shards: int = 1) -> Path:
    root.mkdir(parents=True)
    for shard in range(shards):
        with tarfile.open(root / f"{shard:03}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(shard * count // shards, (shard + 1) * count // shards):
                data = text_of(number, nbytes)
                info = tarfile.TarInfo(f"{number:06}.txt")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    index_again(root)
    return root


def index_again(root: Path) -> None:
    storage = open_storage(str(root))
    build_index(storage).save(storage)


def spec_of(dataset: Path, *, seed: int = 3, batch_size: int = 8) -> JobSpec:
    index = Index.load(str(dataset))
    source = SourceSpec(url=str(dataset), index_digest=index.digest, samples=len(index))
    schedule = ScheduleSpec(seed=seed, batch_size=batch_size)
    return JobSpec(sources=(source,), schedule=schedule, pipeline=Pipeline(()).to_json())


def served(spec: JobSpec) -> ServedJob:
    opened = open_job(spec)
    message = RegisterJob(
        spec=spec, world=1, cuts={}, fingerprint=Fingerprint(versions={}, golden=""),
        roster=(RosterEntry(name="agent"),),
    )  # fmt: skip
    preparer = opened.preparer(0)
    assert preparer is not None
    place = Located(spec.sources[0].url, spec.sources[0].url)
    return ServedJob(
        open=opened, message=message, clients=(), sources=(ServedSource(1, place),),
        preparers=(preparer,), proof=Proof(), release=opened.close, atlas=Atlas(opened),
        plan=AgentPlan(opened, message, "agent"),
    )  # fmt: skip


@dataclass
class MadeUpProgress:
    """One second a step for everybody."""

    at: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def over(self, job: str) -> int:
        return self.at.get(job, -1)

    def due_at(self, job: str, step: int) -> float:
        return math.inf if job in self.gone else float(step - self.over(job))


class Shelf:
    """A fast tier that jobs read through, one sample after another."""

    def __init__(self, directory: Path, samples: float, in_memory: float) -> None:
        self.progress = MadeUpProgress()
        self.file = disk_file(directory, max(1, int(samples * ROOM_BYTES)))
        self.memory: FastFile | None = (
            memory_file(int(in_memory * ROOM_BYTES)) if in_memory else None
        )
        self.tier = FastTier(self.progress, memory=self.memory, disk=self.file)
        self.jobs: dict[str, ServedJob] = {}

    def add(self, name: str, spec: JobSpec) -> OpenJob:
        self.jobs[name] = served(spec)
        self.tier.timetable.add(name, self.jobs[name])
        return self.jobs[name].open

    def begin(self, name: str, step: int, sample: int) -> Trip | None:
        job = self.jobs[name]
        visit = Visit(job=name, step=step, sample=sample, epoch=0)
        return self.tier.begin(name, job, visit, job.open.place(sample))

    def carry_out(self, name: str, sample: int, trip: Trip | None) -> bytes:
        job = self.jobs[name]
        location = job.open.place(sample).location
        assert trip is not None
        fetched = fetch(job.preparers[0], location, trip.errand, self.tier.files)
        self.tier.end(trip, fetched.passage)
        return fetched.fields["text"]

    def read(self, name: str, step: int, sample: int) -> bytes:
        return self.carry_out(name, sample, self.begin(name, step, sample))

    def run(self, name: str, steps: range, *, ahead: bool = False) -> None:
        """Let a job read all samples of some steps, perhaps long before it is asked for them."""
        for step in steps:
            for sample in self.jobs[name].open.schedule.batch(step).samples.tolist():
                assert self.read(name, step, sample) == text_of(sample)
            if not ahead:
                self.progress.at[name] = step


@contextmanager
def shelf_in(directory: Path, samples: float, in_memory: float = 0) -> Iterator[Shelf]:
    """Room for so many samples on disk, and for so many in memory."""
    shelf = Shelf(directory, samples, in_memory)
    try:
        yield shelf
    finally:
        shelf.file.close()
        if shelf.memory is not None:
            shelf.memory.close()
        for job in shelf.jobs.values():
            job.release()
