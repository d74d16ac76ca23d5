"""Verdicts on real loops: headrace's own loader with its own trace, on slow storage or cores.

An injection is several times what the loop can bear; the loop runs in this process, some seconds
for each cause. Storage is slow as :mod:`headrace.storage.shaped` makes it.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from PIL import Image

from bench.diagnosis.modelled import named
from bench.diagnosis.scoring import Verdict
from headrace import Loader, Pipeline, ops
from headrace.analysis.causes import Cause
from headrace.client import sources
from headrace.storage.local import LocalStorage
from headrace.storage.port import Storage
from headrace.storage.shaped import Shape, ShapedStorage
from headrace.trace.opening import open_trace

PICTURES, SIDE = 64, 768
TEXTS = 600
BATCH = 4
STEPS = 100
STEP_S = 0.06
FREE = Shape()


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """One loop over real files."""

    cause: Cause
    text_bytes: int = 20_000
    """Of a sample; 0: the samples are pictures."""

    batch: int = BATCH
    usual: Shape = FREE
    """The medium."""

    other: Shape | None = None
    """The medium of a part of the loop, from one step to another."""

    from_step: int = 0
    until_step: int = 0


_NEEDED = BATCH / STEP_S
"""Samples that the loop takes a second."""

LOOPS = (
    Loop(cause=Cause.NONE),
    Loop(cause=Cause.NONE, usual=Shape(latency_s=0.002, bytes_per_s=50e6)),
    Loop(cause=Cause.TRANSFORM_BOUND, text_bytes=0, batch=12),
    Loop(
        cause=Cause.STORAGE_BANDWIDTH_BOUND,
        text_bytes=300_000,
        usual=Shape(bytes_per_s=0.6 * _NEEDED * 300_000),
    ),
    Loop(cause=Cause.RTT_BOUND, usual=Shape(latency_s=0.06, jitter=0.2)),
    Loop(
        cause=Cause.COLD_START,
        text_bytes=300_000,
        other=Shape(bytes_per_s=0.4 * _NEEDED * 300_000),
        until_step=25,
    ),
    Loop(
        cause=Cause.CONGESTION,
        text_bytes=300_000,
        usual=Shape(bytes_per_s=6 * _NEEDED * 300_000),
        other=Shape(bytes_per_s=0.3 * _NEEDED * 300_000),
        from_step=40,
        until_step=70,
    ),
)


def verdicts() -> tuple[Verdict, ...]:
    """Run each loop once and return what is said of it."""
    return tuple(_verdict(number, loop) for number, loop in enumerate(LOOPS))


def _verdict(number: int, loop: Loop) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        root, traces = Path(folder) / "data", Path(folder) / "traces"
        root.mkdir()
        _write(root, loop)
        _run(root, traces, loop)
        trace = open_trace([traces])
        found = named(*trace.batches(lambda _: None))
    return Verdict(number, (loop.cause,), found)


def _run(root: Path, traces: Path, loop: Loop) -> None:
    medium = _Medium(LocalStorage(root), loop)
    pipeline = Pipeline([ops.DecodeText()] if loop.text_bytes else _PICTURE_OPS)
    with (
        patch.object(sources, "open_storage", lambda _: medium),
        Loader(root, pipeline=pipeline, batch_size=loop.batch, workers=2, trace=traces) as loader,
    ):
        while medium.step < STEPS:
            for _ in loader:
                time.sleep(STEP_S)
                medium.step += 1
                if medium.step == STEPS:
                    break


_PICTURE_OPS = [ops.DecodeImage(), ops.ColorJitter(0.4, 0.4, 0.4), ops.CenterCrop(224)]


class _Medium:
    """Storage whose speed depends on the step that the loop is at."""

    def __init__(self, inner: Storage, loop: Loop) -> None:
        self.step = 0
        self._loop = loop
        self._usual = ShapedStorage(inner, loop.usual)
        self._other = ShapedStorage(inner, loop.other or loop.usual)

    def __getattr__(self, name: str) -> Any:
        is_other = self._loop.from_step <= self.step < self._loop.until_step
        return getattr(self._other if is_other else self._usual, name)


def _write(root: Path, loop: Loop) -> None:
    rng = np.random.default_rng(0)
    if not loop.text_bytes:
        for number in range(PICTURES):
            coarse = rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((SIDE, SIDE)).save(root / f"{number:03}.jpg")
        return
    letters = rng.integers(97, 123, (TEXTS, loop.text_bytes), dtype=np.uint8)
    lines = [msgspec.json.encode({"text": bytes(row).decode()}) for row in letters]
    (root / "texts.jsonl").write_bytes(b"\n".join(lines) + b"\n")
