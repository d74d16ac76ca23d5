"""How long requests wait for busy devices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_BUSY = 0.98
"""Utilisation above which the formula is not followed: closed loops bound the wait there."""


def waiting_s(
    service_s: Floats, busy: Floats, devices: Floats, *, variation: float = 1.0
) -> Floats:
    """Return the mean wait before service in an M/G/k queue [s], element by element.

    Exact for one device (Pollaczek-Khinchine), else Sakasegawa's approximation.

    Args:
        service_s: Mean time of one request on one device [s].
        busy: Utilisation, 0 to 1.
        devices: Requests that are served at a time.
        variation: Squared coefficient of variation of the service time.
    """
    load = np.minimum(busy, MOST_BUSY)
    crowd = load ** (np.sqrt(2.0 * (devices + 1.0)) - 1.0) / (devices * (1.0 - load))
    return (1.0 + variation) / 2.0 * service_s * crowd
