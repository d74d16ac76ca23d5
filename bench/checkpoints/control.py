"""A controller on a host of a bed, for as long as a block runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.wire.auth import TOKEN_VARIABLE
from testbed.host import Host
from testbed.patience import until

PORT = 7410
READY_S = 60.0
ENDING_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningController:
    """Where it answers."""

    url: str
    token: str


@contextmanager
def controller_on(
    host: Host, token: str, options: Sequence[str] = ()
) -> Iterator[RunningController]:
    """Run ``headrace controller`` with a journal and further options."""
    (host.directory / "controller.ready").unlink(missing_ok=True)
    ready, journal = host.directory / "controller.ready", host.directory / "journal.db"
    command = [sys.executable, "-m", "headrace", "controller", "--listen", f"{host.ip}:{PORT}"]
    process = host.launch(
        [*command, "--journal", str(journal), "--ready-file", str(ready), *options],
        env={**os.environ, TOKEN_VARIABLE: token},
        log=host.directory / "controller.log",
    )
    try:
        until(ready.exists, longest_s=READY_S, what="the controller on the bed does not answer")
        yield RunningController(url=f"http://{host.ip}:{PORT}", token=token)
    finally:
        process.terminate()
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
