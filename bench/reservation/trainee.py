"""A training job on the emulated cluster: a real Loader, and an accelerator that sleeps."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from headrace import Loader, Pipeline, ops

NEVER_BY_ITSELF_S = 120.0
"""So long an agent has for a sample before the trainer would read the disk past its limits [s]."""

PICTURE_PIXELS = 64
"""Width and height of what a picture is cropped to."""


class TraineePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a job is told, as JSON on its command line."""

    url: str
    title: str
    batch_size: int
    seed: int
    pictures: bool
    queue_batches: int
    step_time_s: float
    asks_at_s: float
    """When its first step asks for a batch, since 1970 [s]."""
    trace: str
    state: str
    """File that says where the job goes on."""
    agents: tuple[str, ...]
    controller: str
    token: str

    def loader_options(self) -> dict[str, Any]:
        """Return the options of its Loader, but for where it records."""
        return {
            "pipeline": pipeline_of(pictures=self.pictures),
            "batch_size": self.batch_size,
            "seed": self.seed,
            "prefetch_steps": self.queue_batches,
            "agents": self.agents,
            "controller": self.controller,
            "job_title": self.title,
            "token": self.token,
            "workers": 1,
            "check_every": 0,
            "patience_s": NEVER_BY_ITSELF_S,
            "grace_s": NEVER_BY_ITSELF_S,
        }


def pipeline_of(*, pictures: bool) -> Pipeline:
    """Return what is done to a job's samples."""
    steps = (
        (ops.DecodeImage(scaled=False), ops.RandomResizedCrop(PICTURE_PIXELS)) if pictures else ()
    )
    return Pipeline(steps)


def main(plan: TraineePlan) -> None:
    """Train until told to stop; the next start goes on from there."""
    state = Path(plan.state)
    with Loader(plan.url, trace=plan.trace, **plan.loader_options()) as loader:
        if state.exists():
            loader.load_state_dict(msgspec.json.decode(state.read_bytes()))
        try:
            time.sleep(max(0.0, plan.asks_at_s - time.time()))
            _train(loader, plan.step_time_s)
        finally:
            state.write_bytes(msgspec.json.encode(loader.state_dict()))


def _train(loader: Loader, step_time_s: float) -> None:
    """Go through the dataset again and again."""
    while True:
        for _ in loader:
            time.sleep(step_time_s)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        main(msgspec.json.decode(sys.argv[1], type=TraineePlan))
