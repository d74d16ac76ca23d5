"""Decodes one sample in a process of its own, so that a hostile file cannot take the caller along.

Used by loaders for the rare sample that already crashed an agent's worker. The request
goes in as JSON on standard input, the record comes out as one frame on standard output;
no code travels.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import msgspec

from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.core.record import Record
from headrace.dataset.location import SampleLocation
from headrace.prepare.sample import finish_raw
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.wire.frames import (
    FrameHeader,
    HeldStream,
    encode_frame,
    fresh_memory,
    pack_fields,
    read_frame,
    record_of,
)


class IsolatedTask(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the child process needs."""

    pipeline: str
    allowed_ops: tuple[str, ...]
    location: SampleLocation
    fields: dict[str, bytes]
    key: tuple[int, int, int]
    """Seed, epoch, sample."""

    stop: int
    memory_bytes: int
    """Address space that the child may use [bytes]."""


class IsolationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one isolated sample may cost."""

    seconds: float = 600.0
    memory_bytes: int = 4 << 30


def run_isolated(
    pipeline: Pipeline,
    location: SampleLocation,
    fields: Mapping[str, bytes],
    key: SampleKey,
    *,
    stop: int,
    allowed_ops: tuple[str, ...] = (),
    limits: IsolationLimits | None = None,
) -> Record:
    """Apply the first ``stop`` ops to a sample's encoded fields in a child process.

    Raises:
        CorruptSampleError: it cannot be decoded, or the child died or ran past its limits. A
            slow or small host may be why, but it is the third process that died of this sample.
    """
    limits = limits or IsolationLimits()
    task = IsolatedTask(
        pipeline=pipeline.to_json(),
        allowed_ops=allowed_ops,
        location=location,
        fields=dict(fields),
        key=(key.seed, key.epoch, key.sample),
        stop=stop,
        memory_bytes=limits.memory_bytes,
    )
    answer = _ask_child(task, limits.seconds, location.key)
    header, buffers = read_frame(HeldStream(answer), fresh_memory)
    if header.kind == "missing":
        raise CorruptSampleError(header.reason)
    return record_of(header, buffers)


def _ask_child(task: IsolatedTask, seconds: float, name: str) -> bytes:
    try:
        child = subprocess.run(
            [sys.executable, "-m", "headrace.prepare.isolate"],
            input=msgspec.json.encode(task),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CorruptSampleError(f"{name}: not decoded within {seconds:g} s") from error
    if child.returncode != 0:
        ended = (
            f"signal {-child.returncode}" if child.returncode < 0 else f"exit {child.returncode}"
        )
        raise CorruptSampleError(f"{name}: its decoder process ended with {ended}")
    return child.stdout


def _run_child() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=IsolatedTask)
    _limit_memory(task.memory_bytes)
    program = Program(Pipeline.from_json(task.pipeline, allowed=task.allowed_ops))
    seed, epoch, sample = task.key
    key = SampleKey(seed=seed, epoch=epoch, sample=sample)
    try:
        done = finish_raw(program, task.location, task.fields, key, stop=task.stop)
    except CorruptSampleError as error:
        parts = encode_frame(FrameHeader(kind="missing", code="corrupt", reason=str(error)))
    else:
        fields, payload = pack_fields(done.record)
        parts = encode_frame(FrameHeader(kind="tensor", cut=task.stop, fields=fields), payload)
    for part in parts:
        sys.stdout.buffer.write(part)


def _limit_memory(limit_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system; the time limit still holds
        return
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


if __name__ == "__main__":
    _run_child()
