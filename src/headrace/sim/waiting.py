"""How long requests wait for busy devices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_BUSY = 0.98
"""Utilisation above which the formula is not followed: closed loops bound the wait there."""


class Waiting:
    """Mean waits before service in M/G/k queues, one for each tier.

    Exact for one device (Pollaczek-Khinchine), else Sakasegawa's approximation.
    """

    def __init__(self, service_s: Floats, devices: Floats, *, variation: float = 1.0) -> None:
        """Describe the queues.

        Args:
            service_s: Mean time of one request on one device [s].
            devices: Requests that are served at a time.
            variation: Squared coefficient of variation of the service time.
        """
        self._factor = (1.0 + variation) / 2.0 * service_s / devices
        self._power = np.sqrt(2.0 * (devices + 1.0)) - 1.0

    def at(self, busy: Floats) -> Floats:
        """Return the mean waits at these utilisations, 0 to 1 [s]."""
        load = np.minimum(np.maximum(busy, 0.0), MOST_BUSY)
        waits: Floats = self._factor * load**self._power / (1.0 - load)
        return waits
