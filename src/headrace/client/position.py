"""Where a loader is in its job, and how that is kept over a restart."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.digest import name_digest
from headrace.core.errors import ConfigError
from headrace.prepare.job import OpenJob

STATE_VERSION = 1


class Position:
    """The next step, and whether it lies inside an epoch on purpose."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._steps = job.schedule.steps_per_epoch
        self.step = 0
        """The next step to hand over."""

        self._resuming = False

    @property
    def epoch(self) -> int:
        """The epoch of the next step."""
        return self.step // self._steps

    def begin_pass(self) -> tuple[int, int]:
        """Return the first step of a loop and the step before which it ends."""
        if not self._resuming:
            self.step = -(-self.step // self._steps) * self._steps
        self._resuming = False
        return self.step, (self.epoch + 1) * self._steps

    def advance(self) -> None:
        """Note that a step was handed over."""
        self.step += 1

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch, but stay where a loaded state lies inside it."""
        if epoch < 0:
            raise ConfigError(f"epoch {epoch} must be at least 0")
        if self._resuming and epoch == self.epoch:
            return
        self.step, self._resuming = epoch * self._steps, False

    def state(self) -> dict[str, Any]:
        """Return the position as plain values."""
        return {"version": STATE_VERSION, "step": self.step, **self._identity()}

    def load(self, state: dict[str, Any]) -> None:
        """Take over a position.

        Raises:
            ConfigError: it is not a state, or another job's.
        """
        if state.get("version") != STATE_VERSION or not isinstance(state.get("step"), int):
            raise ConfigError(
                f"this is no state of a headrace loader of version {STATE_VERSION}: {state!r:.200}"
            )
        for name, own in self._identity().items():
            if state.get(name) != own:
                raise ConfigError(
                    f"the state is of another job: {name} is {state.get(name)!r} there and {own!r} "
                    "here; use the same datasets, pipeline, seed and batch size"
                )
        self.step, self._resuming = state["step"], True

    def _identity(self) -> dict[str, Any]:
        """Return what must be equal for the steps to mean the same, the telling parts first."""
        spec = self._job.spec
        return {
            "seed": spec.schedule.seed,
            "batch_size": spec.schedule.batch_size,
            "samples": sum(source.samples for source in spec.sources),
            "job": _content_digest(self._job),
        }


def _content_digest(job: OpenJob) -> str:
    """Return what names the job apart from where its datasets happen to be mounted."""
    sources = [(s.index_digest, s.samples, s.weight) for s in job.spec.sources]
    parts = (sources, job.spec.schedule, job.spec.pipeline, job.spec.on_corrupt)
    return name_digest(msgspec.json.encode(parts))
