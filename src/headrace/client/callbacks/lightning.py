"""A callback of Lightning's ``Trainer`` that watches the loss of the training step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from headrace.client.callbacks.watch import LossWatch, SendSignal
from headrace.core.errors import ConfigError
from headrace.policy.loss import LossMonitor


class Lightning(Callback):
    """Sends a signal when the loss spikes, diverges or is no number.

    ``Trainer(…, callbacks=[headrace.callbacks.Lightning()])``. It sees the loss that the first
    process's ``training_step`` returns, of its own samples only.
    """

    def __init__(
        self,
        monitor: LossMonitor | None = None,
        *,
        signal: SendSignal | None = None,
        every_n_steps: int = 1,
    ) -> None:
        """Take what watches and what is called.

        Args:
            monitor: Decides what an anomaly is; None: one with the default limits.
            signal: Called as ``signal(kind, step=step)``; None: ``headrace.signal``.
            every_n_steps: Batches between two looks at the loss. A look waits for the device, so
                more than 1 is right where steps take milliseconds.

        Raises:
            ConfigError: ``every_n_steps`` is less than 1.
        """
        if every_n_steps < 1:
            raise ConfigError(f"every_n_steps={every_n_steps} must be 1 or more")
        self._watch = LossWatch(monitor, signal)
        self._every_n_steps = every_n_steps

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,  # noqa: ARG002 - as the trainer calls it
        outputs: Any,
        batch: Any,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Look at the loss; a step that optimises by itself may return anything, or nothing."""
        if trainer.is_global_zero and batch_idx % self._every_n_steps == 0:
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            if isinstance(loss, torch.Tensor) and loss.numel() == 1:
                self._watch.feed(trainer.global_step, loss.item())
