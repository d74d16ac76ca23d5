"""Starts contenders, has them take batches, and reads what CPU they use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.peers.cputree import TreeCpu, family, tree_cpu
from bench.peers.serving import BATCH
from bench.pictures import SIDE
from headrace.core.errors import CorruptDataError, DeadlineError, RemoteError

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 180.0
TAKE_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
_SHAPES = ((BATCH, 3, SIDE, SIDE), (BATCH, SIDE, SIDE, 3))
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "PYTHONWARNINGS": "ignore",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True, slots=True)
class Loop:
    """What a contender took in one loop of steps."""

    waits_s: tuple[float, ...]
    """For each batch [s]."""

    cpu: TreeCpu
    """Used meanwhile."""


class Running:
    """A contender's process; ends with the block.

    Args:
        python: Runs the module.
        module: Of ``bench.peers``.
        folder: With the photographs.
        settings: What it is tuned by.
        log: What it says is written here.

    Raises:
        RemoteError: it cannot start.
        CorruptDataError: its batches are not those of normalised crops.
    """

    def __init__(
        self, python: Path, module: str, folder: Path, settings: Mapping[str, Any], log: Path
    ) -> None:
        self._log = log
        self._line, other_end = Pipe()
        with log.open("ab") as said, other_end:
            self._process = subprocess.Popen(
                [python, "-m", module, folder, str(other_end.fileno()), json.dumps(settings)],
                cwd=ROOT,
                env={**os.environ, **_ENVIRONMENT},
                stdout=said,
                stderr=said,
                pass_fds=[other_end.fileno()],
            )
        try:
            first = self._answer(START_TIMEOUT_S)
            self._others: list[int] = first["others"]
            check_batch(first)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def take(self, steps: int, step_s: float = 0.0) -> tuple[float, ...]:
        """Take batches; return how long each was waited for [s]."""
        self._line.send({"steps": steps, "step_s": step_s})
        return tuple(self._answer(TAKE_TIMEOUT_S + steps * step_s))

    def loop(self, steps: int, step_s: float) -> Loop:
        """Take batches in a loop of steps; return how long each was waited for, and the CPU."""
        begin = self._cpu()
        waits_s = self.take(steps, step_s)
        return Loop(waits_s, self._cpu() - begin)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let it run while the block does; behind it, it is stopped and disturbs no others."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def stop(self) -> None:
        """End it and all below it."""
        self._signal(signal.SIGCONT)
        below = family(self._process.pid)
        self._tell_end()
        self._line.close()
        for pid in below:
            _send(pid, signal.SIGKILL)
        self._process.wait()

    def _tell_end(self) -> None:
        try:
            self._line.send(None)
            self._process.wait(STOP_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            return

    def _signal(self, what: signal.Signals) -> None:
        for pid in family(self._process.pid):
            _send(pid, what)

    def _cpu(self) -> TreeCpu:
        return tree_cpu(self._process.pid, self._others)

    def _answer(self, timeout_s: float) -> Any:
        line: Connection = self._line
        try:
            if line.poll(timeout_s):
                return line.recv()
        except (EOFError, ConnectionResetError) as error:
            raise RemoteError(f"{self._process.args[2]} ended: {self._last_words()}") from error
        raise DeadlineError(
            f"{self._process.args[2]} gave nothing within {timeout_s:g} s: {self._last_words()}"
        )

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-800:]


def _send(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:  # it has ended meanwhile
        return


def check_batch(told: Mapping[str, Any]) -> None:
    """Tell whether a contender does the work that all do.

    Raises:
        CorruptDataError: a batch has another shape or type, or is not normalised.
    """
    normalised = abs(told["mean"]) < 1 and 0.5 < told["deviation"] < 2
    if tuple(told["shape"]) not in _SHAPES or told["dtype"] != "float32" or not normalised:
        raise CorruptDataError(f"batches must be normalised crops, not {dict(told)}")
