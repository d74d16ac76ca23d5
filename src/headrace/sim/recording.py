"""What a simulated run leaves behind: one row per iteration, and all that the policy did."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.core.media import TierName
from headrace.policy.reservation.events import Action

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A whole run. The arrays of iterations are in the order in which their steps began."""

    jobs: tuple[str, ...]
    batch_samples: tuple[int, ...]
    """Samples of one step, for each job."""

    duration_s: float
    job: npt.NDArray[np.int32]
    """Index into ``jobs``."""

    begun_s: Floats
    """When the iteration's step began [s]."""

    wait_s: Floats
    """How long the accelerators stood still for its batch [s]."""

    failed: npt.NDArray[np.bool_]
    """Whether the queue was empty when the batch was asked for: a prefetch failure."""

    step_s: Floats
    """How long the step computed [s]."""

    iteration: npt.NDArray[np.int32]
    """Counted since the job's last start."""

    mode: npt.NDArray[np.int8]
    """Ground truth, as an index into ``episode.MODES``."""

    nbytes: Floats
    """Stored bytes of its batch [bytes]."""

    hit_rate: Floats
    """Part of the bytes read since the iteration before that the cache held."""

    actions: tuple[tuple[float, Action], ...]
    """(time, what the policy decided), ``SetQuota`` left out."""

    quota_changes: int
    read_bytes: Mapping[TierName, float]
    """Read for the jobs from each tier [bytes]."""

    lost_bytes: float
    """Fetched, and dropped by restarts [bytes]."""

    queued_bytes: float
    """Fetched, and not consumed yet at the end [bytes]."""

    bursts_late_s: tuple[float, ...] = ()
    """How late each checkpoint was done; 0 is in time [s]."""


class Tape:
    """Takes in what happens, in the order in which it happens."""

    def __init__(self) -> None:
        self._columns: tuple[array[Any], ...] = tuple(array(code) for code in _TYPES)
        self.actions: list[tuple[float, Action]] = []
        """(time, decision), without changes of quotas."""
        self.quota_changes = 0
        self.lost_bytes = 0.0
        self.bursts_late_s: list[float] = []

    def add(self, row: tuple[int, float, float, bool, float, int, int, float, float]) -> None:
        """Append one iteration, in the order of ``Recording``'s columns."""
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the iterations as arrays, by begin."""
        arrays = [
            np.array(column, dtype=kind) for column, kind in zip(self._columns, _KINDS, strict=True)
        ]
        order = np.argsort(arrays[1], kind="stable")
        return {name: rows[order] for name, rows in zip(_NAMES, arrays, strict=True)}


_NAMES = ("job", "begun_s", "wait_s", "failed", "step_s", "iteration", "mode", "nbytes", "hit_rate")
_TYPES = "iddbdibdd"
_KINDS = ("i4", "f8", "f8", "?", "f8", "i4", "i1", "f8", "f8")
