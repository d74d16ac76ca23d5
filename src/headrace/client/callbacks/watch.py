"""Feeds a trainer's loss to the monitor and tells those who copy checkpoints what it finds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from headrace.client.signals import signal
from headrace.policy.loss import LossMonitor, LossState

SendSignal = Callable[..., object]
"""Called as ``send(kind, step=step)``, like ``headrace.signal``; must neither raise nor block."""

KINDS: Mapping[LossState, str] = {
    "spike": "loss_spike",
    "divergence": "loss_divergence",
    "not-finite": "loss_not_finite",
}
"""Kind of the signal for each anomaly of a loss."""

_log = logging.getLogger("headrace.loss")


class LossWatch:
    """Watches one loss and sends a signal where an anomaly begins. For one thread."""

    def __init__(self, monitor: LossMonitor | None = None, send: SendSignal | None = None) -> None:
        """Take what watches and what is called.

        Args:
            monitor: Its limits decide what an anomaly is; None: one with the defaults.
            send: Sends a signal; None: ``headrace.signal``.
        """
        self._monitor = LossMonitor() if monitor is None else monitor
        self._send = signal if send is None else send

    def feed(self, step: int, loss: float) -> None:
        """Take the loss of a step; may be infinite or no number."""
        verdict = self._monitor.handle(step, loss)
        if not verdict.alarm:
            return
        _log.warning(
            "step %d: the loss %g is a %s, %.1f scales high",
            step,
            loss,
            verdict.state,
            verdict.height,
        )
        self._send(KINDS[verdict.state], step=step)
