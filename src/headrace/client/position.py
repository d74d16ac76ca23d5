"""Where a loader is in its job, and how that is kept over a restart."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import numpy as np

from headrace.core.digest import name_digest
from headrace.core.errors import ConfigError
from headrace.core.job import MAX_STEP, JobSpec
from headrace.schedule.schedule import Schedule

STATE_VERSION = 2


class Scheduled(Protocol):
    """A job whose steps are known."""

    @property
    def spec(self) -> JobSpec:
        """What decides its batches."""
        ...

    @property
    def schedule(self) -> Schedule:
        """What it reads at each step."""
        ...


class Position:
    """The next step, and whether it lies inside an epoch on purpose."""

    def __init__(self, job: Scheduled) -> None:
        self._job = job
        self._steps = job.schedule.steps_per_epoch
        self.step = 0
        """The next step to hand over."""

        self._resuming = False

    @property
    def epoch(self) -> int:
        """The epoch of the next step."""
        return self.step // self._steps

    def begin_pass(self) -> range:
        """Return the steps of a loop that begins now."""
        if not self._resuming:
            self.step = -(-self.step // self._steps) * self._steps
        self._resuming = False
        return range(self.step, (self.epoch + 1) * self._steps)

    def advance(self) -> None:
        """Note that a step was handed over."""
        self.step += 1

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch, but stay where a loaded state lies inside it.

        Raises:
            ConfigError: it is no whole number, negative, or beyond the last step that there is.
        """
        last = MAX_STEP // self._steps
        if not isinstance(epoch, (int, np.integer)) or not 0 <= epoch <= last:
            raise ConfigError(f"epoch {epoch!r:.40} must be a whole number in [0, {last}]")
        if self._resuming and epoch == self.epoch:
            return
        self.step, self._resuming = int(epoch) * self._steps, False

    def state(self) -> dict[str, Any]:
        """Return the position as plain values, a few hundred bytes whatever the job is."""
        return {"version": STATE_VERSION, "step": self.step, **self._identity()}

    def load(self, state: object) -> None:
        """Take over a position.

        Raises:
            ConfigError: it is no state, one of another version, or another job's; it says what
                differs.
        """
        known = _checked(state)
        own = self._identity()
        differ = [
            f"{name} is {known.get(name)!r:.80} there and {value!r} here"
            for name, value in own.items()
            if known.get(name) != value
        ]
        if differ:
            raise ConfigError(
                f"the state is of another job: {'; '.join(differ)}. Use what it was taken with, "
                "or begin anew without it"
            )
        self.step, self._resuming = known["step"], True

    def _identity(self) -> dict[str, Any]:
        """Return what must be equal for the steps to mean the same, told apart by option.

        Where the datasets happen to be mounted is none of it.
        """
        spec = self._job.spec
        return {
            **msgspec.structs.asdict(spec.schedule),
            "samples": sum(source.samples for source in spec.sources),
            "datasets": _digest([(source.index_digest, source.samples) for source in spec.sources]),
            "weights": _digest([source.weight for source in spec.sources]),
            "pipeline": name_digest(spec.pipeline.encode()),
            "on_corrupt": spec.on_corrupt,
        }


def _checked(state: object) -> dict[str, Any]:
    """Return a state whose version and step can be understood."""
    if not isinstance(state, dict) or "version" not in state:
        raise ConfigError(
            f"this is no state of a headrace loader: {state!r:.200}; "
            "give what state_dict() returned"
        )
    version, step = state["version"], state.get("step")
    if version != STATE_VERSION:
        raise ConfigError(
            f"the state has version {version!r:.40} and this headrace reads {STATE_VERSION}; "
            "resume with the headrace that it was taken with"
        )
    if type(step) is not int or not 0 <= step <= MAX_STEP:
        raise ConfigError(
            f"the state is damaged: its step is {step!r:.40} and must be a whole number in "
            f"[0, {MAX_STEP}]; use the state of another checkpoint"
        )
    return state


def _digest(parts: object) -> str:
    return name_digest(msgspec.json.encode(parts))
