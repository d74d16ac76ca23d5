"""The training loop's side of a loader: steps in order, one pass at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, Protocol

from headrace.client.counts import Counts, EpochSummary, EpochTally
from headrace.client.machinery import Ahead
from headrace.client.position import Position
from headrace.client.steplog import StepLog
from headrace.client.work import Gathered
from headrace.core.errors import CallerError


class SuppliesSteps(Protocol):
    """Makes steps in the background; for the loop's thread."""

    ahead: Ahead
    """What lay ready when the loop asked for its last step."""

    def aim(self, step: int) -> None:
        """Make sure that ``step`` is the next one that is made."""
        ...

    def take(self, step: int) -> Gathered:
        """Wait for a step and hand it over."""
        ...

    def took(self, step: int, *, worked_s: float | None, wait_s: float, counts: Counts) -> None:
        """Note that the loop has a step, after its work on the one before and a wait for this."""
        ...

    def close(self) -> None:
        """End threads, processes and connections; may be called again."""
        ...


class Loop:
    """Hands over the steps of one epoch per pass. For the training thread."""

    def __init__(self, position: Position, supply: SuppliesSteps, log: StepLog) -> None:
        self._position = position
        self._supply = supply
        self._log = log
        self._pid = os.getpid()
        self._is_closed = False
        self._tally = EpochTally(0)
        self._pass = 0
        self._handed_at: float | None = None

    @property
    def position(self) -> Position:
        """Where the loop is in its job."""
        return self._position

    def begin(self) -> Iterator[Gathered]:
        """Begin the next epoch, or go on in the one that a loaded state is in.

        Raises:
            CallerError: the loader is closed, or was made before this process was forked.
        """
        self._require_usable()
        self._end()
        steps = self._position.begin_pass()
        self._tally = EpochTally(self._position.epoch)
        self._supply.aim(self._position.step)
        return self._steps(self._pass, len(steps))

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass begin at the start of an epoch; a state loaded inside it is kept."""
        self._position.set_epoch(epoch)
        self._end()

    def load(self, state: dict[str, Any]) -> None:
        """Let the next pass go on where a state was taken.

        Raises:
            ConfigError: it is no state, or another job's.
        """
        self._position.load(state)
        self._end()

    def summary(self) -> EpochSummary:
        """Return what was delivered of the current epoch."""
        return self._tally.summary()

    def close(self) -> None:
        """End the loop, what supplies it and its record. May be called again.

        A forked process that drops its copy of a loader ends nothing: it is the parent's.
        """
        if not self._is_at_home():
            return
        self._is_closed = True
        self._log.ended(time.monotonic())
        try:
            self._supply.close()
        finally:
            self._log.close()

    def _end(self) -> None:
        """End the pass that is going on, if any."""
        self._pass += 1
        self._handed_at = None

    def _steps(self, number: int, count: int) -> Iterator[Gathered]:
        try:
            for _ in range(count):
                if number != self._pass:
                    raise CallerError(
                        "this loop is over: another one has begun, or the loader was sent to "
                        "another step; use one at a time"
                    )
                yield self._next()
        finally:  # also where the loop is left early
            if number == self._pass:
                self._log.ended(time.monotonic())
                self._handed_at = None

    def _next(self) -> Gathered:
        self._require_usable()
        step, asked = self._position.step, time.monotonic()
        worked_s = asked - self._handed_at if self._handed_at is not None else None
        self._log.asked(asked)
        gathered = self._supply.take(step)
        self._handed_at = time.monotonic()
        wait_s = self._handed_at - asked
        self._supply.took(step, worked_s=worked_s, wait_s=wait_s, counts=gathered.counts)
        self._position.advance()
        self._tally.add(gathered.counts, gathered.batch.replaced, wait_s)
        self._log.handed(gathered, wait_s, self._supply.ahead)
        return gathered

    def _is_at_home(self) -> bool:
        return os.getpid() == self._pid

    def _require_usable(self) -> None:
        if not self._is_at_home():
            raise CallerError(
                "a loader cannot be used in a forked process: its threads stayed behind; "
                "make it after the fork"
            )
        if self._is_closed:
            raise CallerError("the loader is closed; make a new one and load its state_dict")
