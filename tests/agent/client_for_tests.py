"""A dataset and a plain client of an agent, for the tests of this folder."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
from PIL import Image

from headrace.agent.local import LocalAgent
from headrace.core.draws import SampleKey
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.core.record import Record
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.prepare.job import open_job
from headrace.storage.opening import open_storage
from headrace.transform import ops
from headrace.transform.fingerprint import fingerprint
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.frames import FrameHeader, fresh_memory, read_frame, record_of
from headrace.wire.messages import FetchRequest, Fingerprint, JobRegistered, RegisterJob

STEPS_WAIT_S = 20.0
PLAIN = Pipeline((ops.DecodeImage(), ops.RandomResizedCrop(64), ops.ToFloat()))


def make_dataset(root: Path, count: int = 24) -> Path:
    root.mkdir(parents=True)
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 255, (9, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((240, 180)).save(root / f"{number:03}.jpg", quality=90)
    (root / "005.jpg").write_bytes((root / "005.jpg").read_bytes()[:3000])
    storage = open_storage(str(root))
    build_index(storage).save(storage)
    return root


OPENED: list[Connection] = []
"""Connections to be closed after each test."""


def connect(endpoint: Endpoint) -> Connection:
    """Return a connection that is closed after the test."""
    OPENED.append(Connection(endpoint))
    return OPENED[-1]


class Job:
    """A client of one job: registers, fetches, keeps what came."""

    def __init__(
        self, agent: LocalAgent, dataset: Path, pipeline: Pipeline = PLAIN, cut: int = 2
    ) -> None:
        index = Index.load(str(dataset))
        source = SourceSpec(url=str(dataset), index_digest=index.digest, samples=len(index))
        self.spec = JobSpec(
            sources=(source,),
            schedule=ScheduleSpec(seed=3, batch_size=6),
            pipeline=pipeline.to_json(),
        )
        self.program = Program(pipeline)
        self.cut = cut
        self.connection = connect(Endpoint(address=agent.address, token=agent.token))
        self.path = f"/v1/jobs/{self.spec.id}"

    def message(self, **changes: object) -> RegisterJob:
        proof = fingerprint(self.program)
        given: dict[str, object] = {
            "spec": self.spec,
            "world": 1,
            "cuts": {"image": self.cut},
            "fingerprint": Fingerprint(versions=proof.versions, golden=proof.golden),
            "roster": (),
        }
        return RegisterJob(**{**given, **changes})  # type: ignore[arg-type]

    def register(self, **changes: object) -> JobRegistered:
        """Register, again until the golden vectors are made."""
        deadline = time.monotonic() + 40
        while True:
            answer = self.connection.call("PUT", self.path, JobRegistered, self.message(**changes))
            if answer.mode == "raw-only" or not answer.reason or time.monotonic() > deadline:
                return answer

    def send(
        self, *samples: int, step: int = 0, wait_s: float = STEPS_WAIT_S, **more: object
    ) -> None:
        request = FetchRequest(
            step=step, rank=0, world=1, samples=samples, epochs=(0,) * len(samples),
            consumed_step=-1, step_time_s=0.0, wait_s=wait_s, **more,  # type: ignore[arg-type]
        )  # fmt: skip
        self.connection.send("POST", f"{self.path}/fetch", msgspec.json.encode(request))

    def receive(self) -> dict[int, tuple[FrameHeader, Record]]:
        answer, frames = self.connection.receive(), {}
        while True:
            header, buffers = read_frame(answer, fresh_memory)
            if header.kind == "end":
                return frames
            frames[header.sample] = (header, record_of(header, buffers))

    def fetch(self, *samples: int, **options: object) -> dict[int, tuple[FrameHeader, Record]]:
        self.send(*samples, **options)  # type: ignore[arg-type]
        return self.receive()

    def statistics(self) -> dict[str, object]:
        return self.connection.call("GET", "/v1/statistics", dict)

    def expected(self, sample: int) -> Record:
        job = open_job(self.spec, allowed_ops=("*",))
        preparer = job.preparer(0)
        assert preparer is not None
        key = SampleKey(seed=3, epoch=0, sample=sample)
        return preparer.prepare(job.place(sample).location, key, stop=self.cut).record
