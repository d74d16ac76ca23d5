"""Runs a twin scenario with real processes: agent, controller, Loaders, and what goes wrong."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen, TimeoutExpired

import msgspec
import numpy as np
from PIL import Image

from bench.reservation.governor import PORT, GovernorPlan, read_decisions
from bench.reservation.steps import Step, read_steps
from bench.reservation.trainee import TraineePlan, pipeline_of
from bench.reservation.twin import (
    DISK,
    LINK,
    Job,
    JobRestart,
    Spell,
    Twin,
    link_mbit_per_s,
    seed_of,
)
from headrace import Loader
from headrace.core.errors import RemoteError
from headrace.dataset.build import build_index
from headrace.policy.reservation.events import Action, SetQuota
from headrace.sim.job import sample_sizes
from headrace.sim.recording import Recording, Tape
from headrace.storage.opening import open_storage
from headrace.wire.auth import TOKEN_VARIABLE, new_token
from testbed import Testbed, faults
from testbed.agent_process import AgentProcess
from testbed.disk_profiles import DiskLimits
from testbed.host import Host
from testbed.patience import until

REPOSITORY = Path(__file__).parents[2]

FAILED_S = 0.005
"""A batch that is not there within this time was not there, unless the queue was full: handing
one over takes less but on a busy machine [s]."""

BEGIN_S = 2.0
"""From the start of the jobs' processes until the scenario's clock says 0 [s]."""

DROPPED_EVERY_S = 1.0
"""So often the page cache forgets the datasets, so that reads reach the disk [s]."""

READ_AHEAD_KB = "0"
"""Of the disk: with read-ahead, of 64 KiB as of 2 MiB, the kernel read 28 MB/s where 22 to 23 were
asked for; without it, 24.0 for 23.6. The simulator knows nothing of read-ahead."""

ENDING_S = 20.0
READY_S = 60.0


@dataclass(frozen=True, slots=True)
class _Due:
    at_s: float
    act: Callable[[], object]


class ReservationBed:
    """One storage host with an agent, a controller, and jobs on a trainer host.

    Use as a context manager. All that runs ends with the bed.

    Args:
        twin: The scenario.
        offers_bytes_per_s: What the agent says of its disk; None: all of it [B/s].
    """

    def __init__(self, twin: Twin, *, offers_bytes_per_s: float | None = None) -> None:
        self.twin = twin
        self.offers_bytes_per_s = offers_bytes_per_s or twin.disk_bytes_per_s
        self.token = new_token()
        self._bed = Testbed(twin.bed())
        self._jobs: dict[str, Popen[bytes]] = {}
        self._traces: dict[str, list[Path]] = {name: [] for name in twin.jobs}
        self._began_s = 0.0

    def __enter__(self) -> ReservationBed:
        self._bed.__enter__()
        try:
            hosts = self._bed.hosts
            self.storage, self.trainer, self.head = (
                hosts[name] for name in ("storage-1", "trainer-1", "head-1")
            )
            self.controller = f"http://{self.head.ip}:{PORT}"
            self._decisions = self.head.directory / "decisions.jsonl"
            self._read_what_is_asked_for()
            self._store()
            self.names = {self._job_id(name): name for name in self.twin.jobs}
            self.agent = self._agent()
        except BaseException:
            self._bed.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._bed.__exit__(None, None, None)

    # A whole run

    def run(self, *, static: bool) -> Recording:
        """Play the scenario through under one policy and return what happened.

        Raises:
            RemoteError: a process ended by itself.
            DeadlineError: one does not answer, or does not end.
        """
        governor = self.start_controller(static=static)
        self.begin()
        with ExitStack() as lasting:
            self._play(sorted(self._due(lasting), key=lambda due: due.at_s))
        self.finish()
        end(governor)
        self.agent.stop()
        return self._recording()

    def begin(self) -> None:
        """Start the agent, and all jobs; the controller runs already."""
        self.agent.start()
        self.agent.wait_ready()
        self._began_s = time.time() + BEGIN_S
        for name in self.twin.jobs:
            self.start_job(name)

    def finish(self) -> None:
        """End all jobs.

        Raises:
            RemoteError: one has ended by itself before.
        """
        self._require_jobs()
        for name in self.twin.jobs:
            self.stop_job(name)

    def _play(self, due: list[_Due]) -> None:
        disk = self.storage.disk
        assert disk is not None
        while (now_s := time.time() - self._began_s) < self.twin.duration_s:
            while due and due[0].at_s <= now_s:
                due.pop(0).act()
            self._require_jobs()
            disk.drop_cache()
            soon_s = min([DROPPED_EVERY_S, *(one.at_s - now_s for one in due[:1])])
            time.sleep(max(0.0, soon_s))

    def _due(self, lasting: ExitStack) -> Iterator[_Due]:
        twin = self.twin
        for restart in twin.restarts:
            yield _Due(restart.at_s, lambda restart=restart: self.restart(restart))  # type: ignore[misc]
        for taken in twin.scans:
            left = DiskLimits(read_bytes_per_s=round(twin.disk_bytes_per_s - taken.bytes_per_s))
            yield from _while(taken, faults.disk_slowed(self.storage, left), lasting)
        for taken in twin.congestion:
            mbit_per_s = link_mbit_per_s(twin.link_bytes_per_s - taken.bytes_per_s)
            yield from _while(taken, faults.link_slowed(self.storage, mbit_per_s), lasting)
        for busy in twin.busy:
            yield from _while(busy, _burning(self.storage, busy.percent_of_core), lasting)

    # Its parts

    def start_controller(self, *, static: bool) -> Popen[bytes]:
        """Start the controller and wait until it answers."""
        ready = self.head.directory / "controller.ready"
        ready.unlink(missing_ok=True)
        needs = self.twin.needs()
        plan = GovernorPlan(
            listen=f"{self.head.ip}:{PORT}",
            token=self.token,
            decisions=str(self._decisions),
            ready=str(ready),
            journal=str(self.head.directory / f"journal-{'static' if static else 'ours'}.db"),
            static={job: dict(needs[name]) for job, name in self.names.items()} if static else None,
        )
        process = _launch(self.head, "bench.reservation.governor", plan)
        until(ready.exists, longest_s=READY_S, what="the controller on the bed does not answer")
        return process

    def start_job(self, name: str, *, asks_at_s: float | None = None) -> None:
        """Start a job's process; it goes on where the job was."""
        job, traces = self.twin.jobs[name], self._traces[name]
        traces.append(self.trainer.directory / f"{name}-{len(traces)}.trace")
        plan = TraineePlan(
            url=str(self._folder(name)),
            title=name,
            batch_size=job.batch_size,
            seed=seed_of(name),
            pictures=job.picture_pixels > 0,
            queue_batches=job.queue_batches,
            step_time_s=job.step_time_s,
            asks_at_s=asks_at_s or self._began_s + job.initialise_s,
            trace=str(traces[-1]),
            state=str(self.trainer.directory / f"{name}.state"),
            agents=(self.agent.address,),
            controller=self.controller,
            token=self.token,
        )
        log = self.trainer.directory / f"{name}.log"
        self._jobs[name] = _launch(self.trainer, "bench.reservation.trainee", plan, log)

    def stop_job(self, name: str) -> None:
        """Let a job end where it is."""
        end(self._jobs.pop(name))

    def restart(self, restart: JobRestart) -> None:
        """Let a job fail and start anew."""
        asks_at_s = self._began_s + restart.at_s + self.twin.jobs[restart.job].initialise_s
        self.stop_job(restart.job)
        self.start_job(restart.job, asks_at_s=asks_at_s)

    def steps(self, name: str) -> list[list[Step]]:
        """Return a job's steps so far, by start."""
        return [read_steps(folder) for folder in self._traces[name]]

    def _require_jobs(self) -> None:
        for name, process in self._jobs.items():
            if process.poll() is not None:
                log = (self.trainer.directory / f"{name}.log").read_text()[-2000:]
                raise RemoteError(f"job {name} ended by itself and said: {log}")

    def _agent(self) -> AgentProcess:
        options = ["--root", str(self.storage.directory), "--workers", "1"]
        options += ["--tier", f"{DISK}={self.offers_bytes_per_s / 1e6:g}MB/s"]
        options += ["--tier", f"{LINK}={self.twin.link_bytes_per_s / 1e6:g}MB/s"]
        options += ["--controller", self.controller, "--cpu-threshold", "1"]
        return AgentProcess(
            self.storage, storage=(), options=options, environment={TOKEN_VARIABLE: self.token}
        )

    # Data

    def _read_what_is_asked_for(self) -> None:
        """Keep the kernel from reading on after a sample: others lie there, and it costs rate."""
        disk = self.storage.disk
        assert disk is not None
        Path("/sys/dev/block", disk.device, "queue/read_ahead_kb").write_text(READ_AHEAD_KB)

    def _folder(self, name: str) -> Path:
        return self.storage.directory / name

    def _store(self) -> None:
        for name in self.twin.jobs:
            folder = self._folder(name)
            folder.mkdir()
            sizes = sample_sizes(self.twin.dataset(name)).tolist()
            _write_shard(folder / "shard.tar", sizes, self.twin.jobs[name])
            storage = open_storage(str(folder))
            build_index(storage).save(storage)
            storage.close()

    def _job_id(self, name: str) -> str:
        job = self.twin.jobs[name]
        with Loader(
            str(self._folder(name)),
            pipeline=pipeline_of(pictures=job.picture_pixels > 0),
            batch_size=job.batch_size,
            seed=seed_of(name),
            controller="",
            workers=1,
        ) as loader:
            return loader.job.spec.id

    # What happened

    def _recording(self) -> Recording:
        tape = Tape()
        names = list(self.twin.jobs)
        for number, name in enumerate(names):
            for steps in self.steps(name):
                for iteration, step in enumerate(steps):
                    tape.add(self._row(number, iteration, step))
        actions = list(self._actions())
        return Recording(
            jobs=tuple(names),
            batch_samples=tuple(job.batch_size for job in self.twin.jobs.values()),
            duration_s=self.twin.duration_s,
            actions=tuple(one for one in actions if not isinstance(one[1], SetQuota)),
            quota_changes=sum(isinstance(action, SetQuota) for _, action in actions),
            read_bytes={},
            lost_bytes=0.0,
            queued_bytes=0.0,
            bursts_late_s=(),
            **tape.columns(),
        )

    def _row(
        self, job: int, iteration: int, step: Step
    ) -> tuple[int, float, float, bool, float, int, int, float, float]:
        wait_s, begin_s = step.wait_s, step.begin_s - self._began_s
        computed_s = max(step.step_s - wait_s, 0.0)
        capacity = list(self.twin.jobs.values())[job].queue_batches
        failed = wait_s > FAILED_S and step.queue_batches < capacity
        return (
            job,
            begin_s + wait_s,
            wait_s,
            failed,
            computed_s,
            iteration,
            0,
            step.batch_bytes,
            0.0,
        )

    def _actions(self) -> Iterator[tuple[float, Action]]:
        for at_s, action in read_decisions(self._decisions):
            named = replace(action, job=self.names.get(action.job, action.job))
            yield at_s - self._began_s, named


def end(process: Popen[bytes]) -> None:
    """Ask a process to end, and see that it does."""
    process.terminate()
    try:
        process.wait(ENDING_S)
    except TimeoutExpired:
        process.kill()
        process.wait(ENDING_S)


@contextmanager
def _burning(host: Host, percent_of_core: float) -> Iterator[None]:
    with faults.burn_cpu(host, percent_of_core):
        yield


def _while(spell: Spell, fault: AbstractContextManager[None], lasting: ExitStack) -> Iterator[_Due]:
    """Yield the begin and the end of a fault, which ends with ``lasting`` at the latest."""
    one = ExitStack()
    lasting.push(one)
    yield _Due(spell.at_s, lambda: one.enter_context(fault))
    yield _Due(spell.until_s, one.close)


def _launch(host: Host, module: str, plan: msgspec.Struct, log: Path | None = None) -> Popen[bytes]:
    argv = [sys.executable, "-m", module, msgspec.json.encode(plan).decode()]
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    return host.launch(argv, env={**os.environ, "PYTHONPATH": path}, log=log)


def _write_shard(file: Path, sizes: Sequence[float], job: Job) -> None:
    """Write a WebDataset shard of texts, or of pictures, of these sizes."""
    picture = _picture(job.picture_pixels) if job.picture_pixels else b""
    ending, filler = ("jpg", b"\0") if picture else ("txt", b"h")
    with tarfile.open(file, "w") as shard:
        for number, size in enumerate(np.rint(sizes).astype(int).tolist()):
            entry = tarfile.TarInfo(f"{number:06}.{ending}")
            entry.size = max(size, len(picture))
            shard.addfile(entry, io.BytesIO(picture.ljust(size, filler)))


def _picture(pixels: int) -> bytes:
    """Return a JPEG; what follows its end is no part of it to a decoder."""
    small = np.random.default_rng(pixels).integers(0, 255, (pixels // 8, pixels // 8, 3), np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(small).resize((pixels, pixels)).save(encoded, "JPEG", quality=85)
    return encoded.getvalue()
