"""An estate on a testbed: HDFS, agents, a dataset in it, and a trainer to be disturbed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from headrace import Loader, Pipeline, ops
from headrace.dataset.build import build_index
from headrace.demo.proof import batch_digest
from headrace.demo.protocol import Failed, SegmentEnd, SegmentPlan, Stepped, decode, encode
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.storage import HdfsStorage
from testbed import Scenario, Testbed
from testbed.host import Host
from testbed.services import Services

REPOSITORY = Path(__file__).parents[2]
FOLDER = "/pictures"
SHARDS, PER_SHARD = 4, 60
BATCH = 8
SEED = 5
STEP_S = 0.15
PIPELINE = Pipeline(
    [ops.DecodeImage(), ops.RandomResizedCrop(96), ops.RandomHorizontalFlip(0.5), ops.ToFloat()]
)

SCENARIO = """
name = "faults"

[[hosts]]
role = "namenode"

[[hosts]]
role = "trainer"
rate_mbit_per_s = 1000

[[hosts]]
role = "storage"
count = 3
rate_mbit_per_s = 1000
disk = { profile = "ssd", size_gb = 1 }

[services.hdfs]
block_mib = 1
replication = 2

[services.agents]
workers = 1
# The guard has tests of its own. What lies ready would hide a fault, so little may.
options = ["--cpu-threshold", "1", "--lead-seconds", "1"]
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What a trainer told."""

    steps: list[Stepped]
    end: SegmentEnd

    @property
    def digests(self) -> list[str]:
        """One digest of every byte per batch."""
        return [one.digest for one in self.steps]

    @property
    def longest_wait_s(self) -> float:
        """Longest wait for a batch but the first, which waits for all to begin [s]."""
        return max(one.wait_s for one in self.steps[1:])


@dataclass(frozen=True, kw_only=True, slots=True)
class Estate:
    """All of it, running."""

    bed: Testbed
    services: Services
    files: tuple[str, ...]
    """Paths of the dataset's files in HDFS."""

    @property
    def trainer(self) -> Host:
        """The host that trains."""
        return self.bed.hosts["trainer-1"]

    @property
    def url(self) -> str:
        """The dataset."""
        return f"{self.services.hdfs.url}{FOLDER}"

    def digests(self, steps: int) -> list[str]:
        """Return the digests of the first steps as made in this process, without any agent."""
        found: list[str] = []
        with Loader(self.url, pipeline=PIPELINE, batch_size=BATCH, seed=SEED) as loader:
            while len(found) < steps:
                found += [batch_digest(batch, batch.rows) for batch in loader]
        return found[:steps]

    def train(self, steps: int, *, at: Mapping[int, Callable[[], object]] | None = None) -> Run:
        """Train for some steps; at the end of a numbered one, do something to the estate."""
        plan = encode(self._plan(steps)) + b"\n"
        told: list[Stepped] = []
        with self._start() as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(plan)
            process.stdin.flush()
            for line in process.stdout:
                message = decode(line)
                assert not isinstance(message, Failed), message
                if isinstance(message, SegmentEnd):
                    return Run(steps=told, end=message)
                if isinstance(message, Stepped):
                    told.append(message)
                    (at or {}).get(len(told), lambda: None)()
        raise AssertionError(f"the trainer ended after {len(told)} of {steps} steps")

    def _plan(self, steps: int) -> SegmentPlan:
        return SegmentPlan(
            mode="headrace",
            root=self.url,
            pipeline=PIPELINE.to_json(),
            batch_size=BATCH,
            seed=SEED,
            first_step=0,
            warmup_steps=0,
            steps=steps,
            step_s=STEP_S,
            first_step_s=STEP_S,
            workers=2,
            cpus=(),
            agents=tuple(self.services.addresses),
            token=self.services.token,
        )

    @contextmanager
    def _start(self) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(
            self.trainer.command([sys.executable, "-m", "headrace.demo.trainer"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self.services.environment},
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@contextmanager
def estate() -> Iterator[Estate]:
    """Make the bed, start all, and store the dataset."""
    with Testbed(Scenario.parse(SCENARIO)) as bed, Services(bed) as services:
        files = _store(services)
        yield Estate(bed=bed, services=services, files=files)


def _store(services: Services) -> tuple[str, ...]:
    """Write the dataset: shards of several blocks, so that samples cross from one to another."""
    config = HdfsConfig.from_environment({**os.environ, **services.environment})
    root = HdfsStorage(services.hdfs.url, config)
    shards = [f"{FOLDER}/{number}.tar" for number in range(SHARDS)]
    for number, name in enumerate(shards):
        root.write(name.removeprefix("/"), shard(number))
    root.close()
    folder = HdfsStorage(f"{services.hdfs.url}{FOLDER}", config)
    build_index(folder).save(folder)
    folder.close()
    return tuple(shards)


def shard(number: int) -> bytes:
    """Return a tar of pictures."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for one in range(number * PER_SHARD, (number + 1) * PER_SHARD):
            content = picture(one)
            entry = tarfile.TarInfo(f"{one:05}.jpg")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def picture(seed: int) -> bytes:
    """Return a JPEG of about 40 kB."""
    coarse = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    file = io.BytesIO()
    image = Image.fromarray(coarse).resize((512, 384), Image.Resampling.BICUBIC)
    image.save(file, "JPEG", quality=92)
    return file.getvalue()
