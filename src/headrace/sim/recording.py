"""What a simulated run leaves behind: one row per iteration, and all that the policy did."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.core.media import TierName
from headrace.policy.reservation.events import Action
from headrace.sim.episode import FOREMOST, MODES

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

    truths: npt.NDArray[np.int32]
    """Ground truth: bit ``1 << index`` for each of ``episode.MODES`` that was the case."""

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

    @property
    def mode(self) -> npt.NDArray[np.int32]:
        """What each iteration is counted as, as an index into ``episode.MODES``."""
        mode = np.zeros(self.truths.size, dtype=np.int32)
        for name in reversed(FOREMOST):
            index = MODES.index(name)
            mode[self.truths & 1 << index != 0] = index
        return mode


_ROW = struct.Struct("<idd?diidd")
_COLUMNS = np.dtype(
    [
        ("job", "<i4"),
        ("begun_s", "<f8"),
        ("wait_s", "<f8"),
        ("failed", "?"),
        ("step_s", "<f8"),
        ("iteration", "<i4"),
        ("truths", "<i4"),
        ("nbytes", "<f8"),
        ("hit_rate", "<f8"),
    ]
)


class Tape:
    """Takes in what happens, in the order in which it happens; 53 bytes an iteration."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self.actions: list[tuple[float, Action]] = []
        """(time, decision), without changes of quotas."""
        self.quota_changes = 0
        self.lost_bytes = 0.0
        self.bursts_late_s: list[float] = []

    def add(self, row: tuple[int, float, float, bool, float, int, int, float, float]) -> None:
        """Append one iteration, in the order of ``Recording``'s columns."""
        self._rows += _ROW.pack(*row)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the iterations as arrays, by begin."""
        rows = np.frombuffer(self._rows, dtype=_COLUMNS)
        order = np.argsort(rows["begun_s"], kind="stable")
        return {name: rows[name][order] for name in _COLUMNS.names or ()}
