"""A callback of ``transformers.Trainer`` that watches the loss it logs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headrace.client.callbacks.watch import LossWatch, SendSignal
from headrace.policy.loss import LossMonitor


class HuggingFace(TrainerCallback):
    """Sends a signal when the loss spikes, diverges or is no number.

    ``Trainer(…, callbacks=[headrace.callbacks.HuggingFace()])``. It sees the mean loss of all
    ranks each time that the trainer logs, so ``logging_steps`` decides how soon it can tell; only
    the first process sends. A loss that is no number is only seen with
    ``logging_nan_inf_filter=False``: else the trainer puts another in its place.
    """

    def __init__(
        self, monitor: LossMonitor | None = None, *, signal: SendSignal | None = None
    ) -> None:
        """Take what watches and what is called.

        Args:
            monitor: Decides what an anomaly is; None: one with the default limits.
            signal: Called as ``signal(kind, step=step)``; None: ``headrace.signal``.
        """
        self._watch = LossWatch(monitor, signal)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002 - as the trainer calls it
        **_: Any,
    ) -> None:
        """Say what cannot be seen."""
        if state.is_world_process_zero and args.logging_nan_inf_filter:
            warnings.warn(
                "the trainer hides losses that are no numbers from its log, so headrace cannot "
                "see them; set logging_nan_inf_filter=False",
                stacklevel=2,
            )

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002 - as the trainer calls it
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Look at the loss, if one was logged."""
        loss = (logs or {}).get("loss")
        if state.is_world_process_zero and loss is not None:
            self._watch.feed(state.global_step, float(loss))
