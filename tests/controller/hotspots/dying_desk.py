"""A desk of hotspots in a process that kills itself at a given step; run as a program.

Reads lines ``STEP JOURNAL URL`` and answers each with how the process ended that it forked: it
announces a file, releases it once more copies were asked for, and is killed just before its
STEP-th step. Steps are each record that is kept or dropped, and the time before and after each
number of copies that is asked for.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec

from headrace.controller.hotspots.carrier import Carrier
from headrace.controller.hotspots.desk import HotspotDesk
from headrace.controller.hotspots.reading import read_hot_files
from headrace.controller.hotspots.stores import open_carrier
from headrace.controller.journal import Journal
from headrace.controller.unwritten import Table
from headrace.policy.hotspot.events import (
    CopiesSet,
    Figures,
    FileGone,
    FileSeen,
    HotFile,
    SetCopies,
    SetElsewhere,
)
from headrace.policy.hotspot.limits import HotspotLimits
from headrace.wire.hotspots import HotspotAsked

LIMITS = HotspotLimits(node_bytes_per_s=1e4)


class Steps:
    """Counts down to the end."""

    def __init__(self, left: int) -> None:
        self._left = left

    def step(self) -> None:
        """Take one, or die."""
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)


class DyingJournal(Journal):
    """Steps before each record; records are written at once, or not at all."""

    def __init__(self, path: Path, steps: Steps) -> None:
        super().__init__(path)
        self._steps = steps

    def put(self, table: Table, key: str, row: msgspec.Struct) -> None:
        self._steps.step()
        super().put(table, key, row)
        self.sync()

    def drop(self, table: Table, key: str) -> None:
        self._steps.step()
        super().drop(table, key)
        self.sync()


class DyingCarrier:
    """Steps before and after each number that is asked for."""

    def __init__(self, inner: Carrier, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps

    def figures(self) -> Figures:
        return self._inner.figures()

    def look(self, file: HotFile) -> FileSeen | FileGone:
        return self._inner.look(file)

    def set_copies(self, order: SetCopies, file: HotFile) -> CopiesSet | SetElsewhere | FileGone:
        self._steps.step()
        answer = self._inner.set_copies(order, file)
        self._steps.step()
        return answer

    def close(self) -> None:
        self._inner.close()


def live(step: int, path: Path, url: str) -> None:
    """Announce, raise, release, lower; or die on the way."""
    steps = Steps(step)
    with closing(DyingJournal(path, steps)) as journal:
        desk = HotspotDesk(
            journal,
            read=read_hot_files,
            opened=lambda store: DyingCarrier(open_carrier(store), steps),
            limits=LIMITS,
        )
        name = desk.announce(HotspotAsked(url=url, world_size=100, files=("hot",), eta_s=60.0)).id
        until = time.monotonic() + 30
        while time.monotonic() < until and not desk.is_idle():
            desk.tick()
            if desk.view(name).state in ("raising", "held"):
                desk.release(name)
            time.sleep(0.005)
    os._exit(0 if desk.is_idle() else 1)


def main() -> None:
    """Fork a life for each line."""
    for line in sys.stdin:
        step, path, url = line.split()
        child = os.fork()
        if child == 0:
            live(int(step), Path(path), url)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)


if __name__ == "__main__":
    main()
