"""Agent → client: a loader that only receives, against ``recv_into`` on a raw TCP socket.

The agent has prepared everything before the clock starts, and the loader's queue is full
before and after, so that exactly what is counted is received. The raw side knows each
length beforehand and fills one block of memory again and again: nothing is faster.
Settings of both are the defaults, digests and spot checks included.
"""

from __future__ import annotations

import multiprocessing
import socket
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from bench.measuring import (
    Options,
    Report,
    Spent,
    interleaved,
    options,
    publish,
    quotients,
    spent_on,
    spread,
)
from headrace import Loader, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.client.batch import Batch
from headrace.report.blocks import Table

SIDE = 224
NOISE_SIDE = 384
PREPARE_TIMEOUT_S = 120.0
_PREPARE_ALL = ("--workers", "2", "--lead-seconds", "3600", "--cpu-threshold", "1")
"""Options of the agent: neither a slow repeat nor other processes keep it from preparing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    batch: int = 64
    steps: int = 16
    """Steps of one run."""

    pictures: int = 256
    """Distinct samples of the dataset."""

    repeats: int = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    """One kind of samples that travels."""

    name: str
    pipeline: Pipeline
    field: str
    sample_bytes: int
    write: Callable[[Path, int], None]
    """Makes the dataset."""


def main(given: Options) -> None:
    """Measure and report."""
    scale = Scale(repeats=5) if given.quick else Scale()
    publish(measure(scale), given.json)


def measure(scale: Scale) -> Report:
    """Run both payloads over both ways."""
    runs = {payload.name: _runs(payload, scale) for payload in (_TENSORS, _TEXTS)}
    figures = {name: _figures(payload, scale, runs[name]) for name, payload in _PAYLOADS.items()}
    return Report(
        name="wire",
        settings=msgspec.to_builtins(scale),
        baseline={name: found["raw"] for name, found in figures.items()},
        headrace={name: found["headrace"] for name, found in figures.items()},
        ratios={
            **_ratios(runs["tensors"], ""),
            **_ratios(runs["texts"], "text_"),
        },
        goals={"vs_raw_tcp": "≥ 0.6", "cpu_vs_raw": "≤ 1.5"},
        table=_table(figures),
        repeats=scale.repeats,
    )


def _runs(payload: Payload, scale: Scale) -> dict[str, list[Spent]]:
    with ExitStack() as stack:
        raw = stack.enter_context(_raw(payload, scale))
        own = stack.enter_context(_own(payload, scale))
        return interleaved({"raw": raw, "headrace": own}, scale.repeats)


def _ratios(runs: Mapping[str, list[Spent]], prefix: str) -> dict[str, Any]:
    raw, own = runs["raw"], runs["headrace"]
    return {
        f"{prefix}vs_raw_tcp": quotients([r.wall_s for r in raw], [o.wall_s for o in own]),
        f"{prefix}cpu_vs_raw": quotients([o.cpu_s for o in own], [r.cpu_s for r in raw]),
    }


def _figures(payload: Payload, scale: Scale, runs: Mapping[str, list[Spent]]) -> dict[str, Any]:
    samples = scale.steps * scale.batch
    return {
        name: {
            "bytes_per_s": spread([samples * payload.sample_bytes / one.wall_s for one in spent]),
            "cpu_s_per_sample": spread([one.cpu_s / samples for one in spent]),
        }
        for name, spent in runs.items()
    }


def _table(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    return Table(
        title="Agent to client on one host",
        columns=("payload", "way", "MB/s", "client CPU per sample", "min", "max"),
        rows=tuple(
            (
                f"{payload} {_PAYLOADS[payload].sample_bytes / 1e3:.0f} kB",
                "loader" if way == "headrace" else "raw TCP recv_into",
                f"{found['bytes_per_s'].median / 1e6:.0f}",
                *(f"{1e6 * getattr(found['cpu_s_per_sample'], what):.1f} µs"
                  for what in ("median", "min", "max")),
            )
            for payload, ways in figures.items()
            for way, found in ways.items()
        ),
    )  # fmt: skip


# headrace


@contextmanager
def _own(payload: Payload, scale: Scale) -> Iterator[Callable[[], Spent]]:
    """Start an agent and a loader; the value runs ``steps`` steps."""
    samples = scale.steps * scale.batch
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        payload.write(root, scale.pictures)
        memory = 64 * 2**20 + 2 * samples * (payload.sample_bytes + 4096)
        agent = stack.enter_context(
            LocalAgent([root], options=("--memory", str(memory), *_PREPARE_ALL))
        )
        loader = stack.enter_context(
            Loader(
                str(root),
                pipeline=payload.pipeline,
                batch_size=scale.batch,
                agents=(agent.address,),
                token=agent.token,
                require_agents=True,
            )
        )
        batches = _endless(loader)
        next(batches)
        yield lambda: _own_run(loader, agent, batches, scale)


def _own_run(loader: Loader, agent: LocalAgent, batches: Iterator[Batch], scale: Scale) -> Spent:
    _wait_until(lambda: _is_full(loader))
    _wait_until(lambda: _has_prepared(agent, scale.steps * scale.batch))

    def run() -> None:
        for _ in range(scale.steps):
            next(batches)
        _wait_until(lambda: _is_full(loader))

    return spent_on(run)


def _endless(loader: Loader) -> Iterator[Batch]:
    while True:
        yield from loader


def _is_full(loader: Loader) -> bool:
    found = loader.statistics().background.prefetch
    return not found.making_steps and found.ready_steps == loader.config.prefetch_steps


def _has_prepared(agent: LocalAgent, samples: int) -> bool:
    request = urllib.request.Request(
        f"{agent.address}/v1/statistics", headers={"Authorization": f"Bearer {agent.token}"}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return bool(msgspec.json.decode(answer.read())["prepared"] >= samples)


def _wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PREPARE_TIMEOUT_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("the agent did not get everything ready; is the machine overloaded?")
        time.sleep(0.005)


def _write_pictures(root: Path, count: int) -> None:
    """Write pictures of noise that are larger than their crops: the cut stays behind the crop."""
    rng = np.random.default_rng(0)
    for number in range(count):
        noise = rng.integers(0, 256, (NOISE_SIDE, NOISE_SIDE, 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / f"{number:04}.jpg", quality=95)


def _write_texts(root: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (count, _TEXT_BYTES), dtype=np.uint8)
    lines = [msgspec.json.encode({"text": bytes(row).decode()}) for row in letters]
    (root / "texts.jsonl").write_bytes(b"\n".join(lines) + b"\n")


_TEXT_BYTES = 4096
_TENSORS = Payload(
    name="tensors",
    pipeline=Pipeline([ops.DecodeImage(), ops.CenterCrop(SIDE)]),
    field="image",
    sample_bytes=SIDE * SIDE * 3,
    write=_write_pictures,
)
_TEXTS = Payload(
    name="texts",
    pipeline=Pipeline([ops.DecodeText()]),
    field="text",
    sample_bytes=_TEXT_BYTES,
    write=_write_texts,
)
_PAYLOADS = {payload.name: payload for payload in (_TENSORS, _TEXTS)}


# Raw TCP


@contextmanager
def _raw(payload: Payload, scale: Scale) -> Iterator[Callable[[], Spent]]:
    """Start a process that only sends; the value receives ``steps`` steps from it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        total = scale.steps * scale.batch
        sender = multiprocessing.get_context("fork").Process(
            target=_send_forever, args=(listening, payload.sample_bytes, total), daemon=True
        )
        sender.start()
        try:
            with closing(socket.create_connection(listening.getsockname())) as sock:
                block = memoryview(bytearray(scale.batch * payload.sample_bytes))
                yield lambda: spent_on(lambda: _receive(sock, block, payload, scale))
        finally:
            sender.terminate()
            sender.join()


def _receive(sock: socket.socket, block: memoryview, payload: Payload, scale: Scale) -> None:
    sock.sendall(b"!")
    size = payload.sample_bytes
    rows = [block[row * size : (row + 1) * size] for row in range(scale.batch)]
    for _ in range(scale.steps):
        for row in rows:
            if sock.recv_into(row, size, socket.MSG_WAITALL) < size:
                raise ConnectionError("the sender ended")


def _send_forever(listening: socket.socket, size: int, count: int) -> None:
    sock, _ = listening.accept()
    data = bytes(size)
    while sock.recv(1):
        for _ in range(count):
            sock.sendall(data)


if __name__ == "__main__":
    main(options())
