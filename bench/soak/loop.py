"""The program of one rank: a loop over the dataset, epoch after epoch, until it is stopped.

``python -m bench.soak.loop PLAN``, a :class:`LoopPlan` as JSON. It writes a :class:`Progress` on
standard output now and then. Some epochs are left early; on SIGUSR1 the loader is closed and made
anew.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.soak.data import PIPELINE
from headrace import Loader
from headrace.client.counts import Counts

PATIENCE_S = 5.0
"""What an agent has for a sample [s]: a loop that takes no time itself finds all of them late."""

PROGRESS_EVERY_S = 0.5
STATE_EVERY_STEPS = 20
LEFT_EARLY_EVERY = 5
"""One in so many epochs is left in the middle."""


class LoopPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank is told."""

    root: str
    state: str
    """File that says where the loop goes on; it need not be there yet."""

    agents: tuple[str, ...] = ()
    token: str = ""
    batch_size: int = 32


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank has done since it started."""

    steps: int = 0
    samples: int = 0
    epochs: int = 0
    loaders: int = 0
    replaced: int = 0
    prepared: int = 0
    """Samples that an agent made."""

    raw: int = 0
    """Samples that an agent sent raw."""


class Loop:
    """Runs the loop and tells of it."""

    def __init__(self, plan: LoopPlan, tell: Callable[[Progress], None]) -> None:
        self._plan = plan
        self._state = Path(plan.state)
        self._tell = tell
        self._told_at = 0.0
        self._steps = self._epochs = self._loaders = 0
        self._counts = Counts()
        self._is_over = False

    def reopen(self, *_: object) -> None:
        """Let the loader be closed and made anew after the step that is going on."""
        self._is_over = True

    def run(self) -> None:
        """Loop until the process is stopped."""
        while True:
            self._loaders += 1
            with self._loader() as loader:
                if self._state.exists():
                    loader.load_state_dict(msgspec.json.decode(self._state.read_bytes()))
                self._is_over = False
                while not self._is_over:
                    self._epoch(loader)

    def _loader(self) -> Loader:
        plan = self._plan
        return Loader(
            plan.root,
            pipeline=PIPELINE,
            batch_size=plan.batch_size,
            agents=plan.agents,
            token=plan.token or None,
            patience_s=PATIENCE_S,
        )

    def _epoch(self, loader: Loader) -> None:
        self._epochs += 1
        leave_at = len(loader) // 2 if self._epochs % LEFT_EARLY_EVERY == 0 else len(loader)
        for number, _ in enumerate(loader):
            self._steps += 1
            if self._steps % STATE_EVERY_STEPS == 0:
                self._save(loader)
            self._tell_now_and_then(loader)
            if number == leave_at or self._is_over:
                break
        self._counts.add(loader.summary().counts)

    def _save(self, loader: Loader) -> None:
        fresh = self._state.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(loader.state_dict()))
        fresh.replace(self._state)

    def _tell_now_and_then(self, loader: Loader) -> None:
        now = time.monotonic()
        if now - self._told_at < PROGRESS_EVERY_S:
            return
        self._told_at = now
        counts = Counts()
        counts.add(self._counts)
        counts.add(loader.summary().counts)
        self._tell(
            Progress(
                steps=self._steps,
                samples=counts.samples,
                epochs=self._epochs,
                loaders=self._loaders,
                replaced=counts.substituted,
                prepared=counts.tensor,
                raw=sum(counts.raw.values()),
            )
        )


def _print(progress: Progress) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(progress) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    loop = Loop(msgspec.json.decode(sys.argv[1], type=LoopPlan), _print)
    signal.signal(signal.SIGUSR1, loop.reopen)
    loop.run()
