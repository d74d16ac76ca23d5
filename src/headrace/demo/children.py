"""The demo's child processes: started, listened to, and always ended.

Children sit in a process group of their own, so that Ctrl-C reaches the demo alone,
which then ends them in order. They also leave when their standard input is closed, so
that none survives a demo that was killed.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import msgspec

from headrace.core.errors import DeadlineError, HeadraceError, ProtocolError
from headrace.core.load import busy_machine
from headrace.demo.protocol import Failed, Message, SegmentEnd, SegmentPlan, decode, encode

SILENCE_LIMIT_S = 120.0
"""A trainer that says nothing for so long is given up."""

_POLL_S = 0.1

Start = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]
"""Starts a command with pipes for its standard input and output, in a process group of its own."""


class SegmentFailedError(HeadraceError):
    """A trainer process ended with an error; the message is its own."""


class Trainer:
    """One running trainer process."""

    def __init__(self, plan: SegmentPlan, start: Start) -> None:
        self.plan = plan
        self._process = start([sys.executable, "-m", "headrace.demo.trainer"])
        self._input = _pipe(self._process.stdin)
        self._output = _pipe(self._process.stdout)
        self._rest = b""
        self.ended = False
        os.set_blocking(self._output.fileno(), False)
        self._input.write(encode(plan))
        self._input.flush()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there are messages."""
        return self._output.fileno()

    def messages(self) -> Iterator[Message]:
        """Yield what has arrived.

        Raises:
            SegmentFailedError: the trainer reported an error.
            ProtocolError: it ended without a last message, or said something else.
        """
        chunk = self._output.read()
        if chunk == b"":
            raise ProtocolError(
                f"the trainer process ended early, with code {self._process.wait(5)}; "
                "its own words are above"
            )
        *lines, self._rest = (self._rest + (chunk or b"")).split(b"\n")
        for line in lines:
            message = self._understood(line)
            self.ended = isinstance(message, SegmentEnd)
            yield message

    def _understood(self, line: bytes) -> Message:
        try:
            message = decode(line)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"the trainer process said {line[:200]!r}: {error}") from error
        if isinstance(message, Failed):
            failure = SegmentFailedError(message.error)
            failure.exit_code = message.exit_code  # type: ignore[misc]
            raise failure
        return message

    def stop(self) -> None:
        """End the process, at once."""
        _end(self._process)


def start_here(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command on this host."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)


@contextmanager
def trainers(plans: Sequence[SegmentPlan], start: Start = start_here) -> Iterator[list[Trainer]]:
    """Start a trainer per plan; all have ended when the block is left."""
    running: list[Trainer] = []
    try:
        for plan in plans:
            running.append(Trainer(plan, start))  # noqa: PERF401 - those started must be ended
        yield running
    finally:
        for trainer in running:
            trainer.stop()


def listen(
    running: Sequence[Trainer], *, meanwhile: Callable[[], None]
) -> Iterator[tuple[Trainer, Message]]:
    """Yield every message until all trainers have reported their end.

    Args:
        running: Trainers to listen to.
        meanwhile: Called about ten times a second.

    Raises:
        DeadlineError: none of them said anything for two minutes.
    """
    with selectors.DefaultSelector() as selector:
        for one in running:
            selector.register(one, selectors.EVENT_READ, one)
        heard_s = time.monotonic()
        while selector.get_map():
            ready = selector.select(_POLL_S)
            meanwhile()
            for key, _ in ready:
                trainer: Trainer = key.data
                heard_s = time.monotonic()
                yield from ((trainer, message) for message in trainer.messages())
                if trainer.ended:
                    selector.unregister(trainer)
            if time.monotonic() - heard_s > SILENCE_LIMIT_S:
                raise DeadlineError(
                    f"no trainer process said anything for {SILENCE_LIMIT_S:g} s"
                    + (busy_machine() or "; run again with --debug")
                )


@contextmanager
def host_work(share: float, cpus: Sequence[int]) -> Iterator[list[int]]:
    """Keep ``cpus`` busy for ``share`` of the time while the block runs; yields the processes.

    Two processes share a CPU's load, so that the share holds next to several decoding
    threads.
    """
    running: list[subprocess.Popen[bytes]] = []
    try:
        for cpu in [cpu for cpu in cpus for _ in range(2)] if share else []:
            process = start_here([sys.executable, "-m", "headrace.demo.hostwork", str(share / 2)])
            running.append(process)
            os.sched_setaffinity(process.pid, {cpu})
        yield [process.pid for process in running]
    finally:
        for process in running:
            _end(process)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # with the worker processes it may have started
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
