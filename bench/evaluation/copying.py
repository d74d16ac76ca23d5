"""Checkpoints that are saved at home, and how soon they can be read away."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from bench.checkpoints.cluster import Crew, at_full_speed, store
from bench.checkpoints.control import RunningController
from bench.checkpoints.orders import SaveTensors
from bench.evaluation import filecopy
from bench.evaluation.linemeter import LineMeter, busiest_second
from bench.evaluation.scale import Scale
from headrace.core.errors import NotFoundError
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.replication import ReplicationView, ReplicationWanted, SignalSent, SignalTaken
from testbed import Testbed
from testbed.host import Host
from testbed.patience import until

MARKER = ".metadata"
TENSOR_FILES = 4
ANSWER_S = 20.0
HEAD_START_S = 3.0
"""So long others have been on their way when the urgent checkpoint is saved [s]."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint's way to the other site."""

    readable_s: float
    """From its marker at home until it can be read away [s]."""

    line_bytes: int
    """That crossed the line meanwhile."""

    busiest_bytes_per_s: float
    """Most that crossed in any second [B/s]."""


class Control:
    """What a controller is asked for, as the commands ask it; a context manager."""

    def __init__(self, controller: RunningController) -> None:
        endpoint = Endpoint(
            address=controller.url,
            token=controller.token,
            read_timeout_s=ANSWER_S,
            service="controller",
        )
        self._connection = Connection(endpoint)

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def replicate(self, home: str, away: str, root: str) -> None:
        """Have what is saved below a root at home copied to the same root away."""
        wanted = ReplicationWanted(source=f"{home}/{root}", destination=f"{away}/{root}")
        self._connection.call("PUT", _path(root), ReplicationView, wanted)

    def end(self, root: str) -> None:
        """End that."""
        self._connection.call("DELETE", _path(root), ReplicationView)

    def signal(self, source: str, step: int) -> None:
        """Say that a checkpoint is urgent."""
        sent = SignalSent(kind="loss_spike", step=step, source=source, sent_at=time.time())
        self._connection.call("POST", "/v1/signals", SignalTaken, sent)


class Sites:
    """Saves a checkpoint at home, again and again, and has it copied.

    Args:
        bed: Both sites.
        folder: The checkpoint's files on this machine.
        home: Root of the HDFS where it is saved.
        away: Root of the other one.
        scale: How much is measured.
    """

    def __init__(self, bed: Testbed, folder: Path, home: str, away: str, scale: Scale) -> None:
        self._bed = bed
        self._folder = folder
        self._scale = scale
        self.home = home
        self.away = away

    def save(self, path: str) -> None:
        """Save it at home; the time that takes is not measured."""
        with at_full_speed(self._bed.by_role("storage", "home")):
            store(self._folder, self.home, path)

    def save_tensors(self, crew: Crew, path: str) -> None:
        """Save the model at home as safetensors."""
        save = SaveTensors(folder=str(self._folder.with_name("tensors")), files=TENSOR_FILES)
        Path(save.folder).mkdir()
        crew.carry_out(self._scale.model, save, [None], mesh=(1,))
        with at_full_speed(self._bed.by_role("storage", "home")):
            store(Path(save.folder), self.home, path)

    def copied_by_files(self, path: str, mover: Host, workers: int) -> Copied:
        """Save it, and copy its files in parallel at once."""
        self.save(path)
        script = [sys.executable, str(filecopy.__file__)]
        with self._measured(path) as found:
            mover.run(
                [*script, f"{self.home}/{path}", f"{self.away}/{path}", str(workers)],
                longest_s=self._scale.copying_s,
            )
        return found[0]

    def copied_by_headrace(self, root: str, control: Control) -> Copied:
        """Save one where a replication watches, and wait for it."""
        self.save(f"{root}/step-100")
        with self._measured(f"{root}/step-100") as found:
            control.replicate(self.home, self.away, root)
        control.end(root)
        return found[0]

    def urgent(self, root: str, control: Control, *, others: int) -> Copied:
        """Save a checkpoint that is urgent, while some of other jobs are on their way."""
        for number in range(others):
            self.save(f"{root}-job-{number}/step-100")
        self.save(f"{root}-urgent/step-200")
        for number in range(others):
            control.replicate(self.home, self.away, f"{root}-job-{number}")
        time.sleep(HEAD_START_S if others else 0.0)
        with self._measured(f"{root}-urgent/step-200") as found:
            control.replicate(self.home, self.away, f"{root}-urgent")
            control.signal(f"{self.home}/{root}-urgent", 200)
        for job in ("urgent", *(f"job-{number}" for number in range(others))):
            control.end(f"{root}-{job}")
        return found[0]

    @contextmanager
    def _measured(self, path: str) -> Iterator[list[Copied]]:
        """Measure from the block's begin until a checkpoint can be read away."""
        found: list[Copied] = []
        begin_s = time.monotonic()
        with LineMeter(self._bed) as meter, closing(open_storage(self.away)) as storage:
            yield found
            until(
                lambda: _is_readable(storage, path),
                longest_s=self._scale.copying_s,
                what=f"{path} does not appear at the far site",
            )
        samples = meter.samples
        found.append(
            Copied(
                readable_s=time.monotonic() - begin_s,
                line_bytes=samples[-1][1] - samples[0][1],
                busiest_bytes_per_s=busiest_second(samples),
            )
        )


def _is_readable(storage: Storage, path: str) -> bool:
    try:
        storage.stat(f"{path}/{MARKER}")
    except NotFoundError:
        return False
    return True


def _path(root: str) -> str:
    return f"/v1/replications/{root}"
