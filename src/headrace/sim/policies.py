"""What a simulated run may be governed by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from headrace.core.media import TierName
from headrace.policy.reservation.events import Action, Event

Floats = npt.NDArray[np.float64]


@runtime_checkable
class Policy(Protocol):
    """The deployed arbiter, or a rival behind the same interface."""

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in what happened and return what is to be done about it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """The state of the whole run, as no real policy can see it.

    Arrays are ``[jobs]`` and in the order of the scenario; to be read only.
    """

    now: float
    quantum_s: float
    missing_bytes: Floats
    """Until the queue is full [bytes]; 0 for a job that does not fetch."""

    short_bytes: Floats
    """Until the batch that is asked for next is whole [bytes]; 0 if it lies ready."""

    asked_at_s: Floats
    """When the next batch is or was asked for [s]."""

    batch_bytes: Floats
    """Mean bytes of a batch [bytes]."""

    step_time_s: Floats
    read: Floats
    """Bytes read from each tier per byte delivered, ``[jobs, tiers]``."""

    usage: Floats
    """What one byte delivered takes of each tier's capacity, and of the cores, ``[jobs, tiers +
    1]``."""

    capacity: Floats
    """What each tier gives at this moment, and the cores, ``[tiers + 1]``."""

    tiers: tuple[TierName, ...]


@runtime_checkable
class Omniscient(Protocol):
    """A bound, not a policy: it sees the truth, and is obeyed without delay."""

    def allot(self, truth: Truth) -> Floats:
        """Return the most that each job may take now [B/s of delivered bytes], ``[jobs]``."""
        ...
