"""The bound: max-min by true needs at every instant, obeyed at once.

It sees what no controller can: how many bytes each queue lacks and when its next batch will
be asked for. Batches that are asked for soonest come first, everybody's to the same part;
what is over fills queues. It is no forecast of the future either: it reacts to the instant, so
a policy that prepares for what is to come may pass it.
"""

from __future__ import annotations

import numpy as np

from headrace.sim.fluid import share
from headrace.sim.policies import Floats, Truth


class Oracle:
    """Allots by true needs."""

    def allot(self, truth: Truth) -> Floats:
        """Return what each job may take now [B/s of delivered bytes], ``[jobs]``."""
        left_s = np.maximum(truth.asked_at_s - truth.now, truth.quantum_s)
        most = truth.missing_bytes / truth.quantum_s
        due = np.minimum(truth.short_bytes / left_s, most)
        weights = truth.batch_bytes / truth.step_time_s
        first = share(due, usage=truth.usage, capacity=truth.capacity, weights=weights).rates
        over = np.maximum(truth.capacity - first @ truth.usage, 0.0)
        rest = share(most - first, usage=truth.usage, capacity=over, weights=weights).rates
        allotted: Floats = first + rest
        return allotted
