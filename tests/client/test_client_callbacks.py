"""Callbacks in real trainers on the CPU: the losses they see are given by the data."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

import headrace.callbacks
from headrace.client.callbacks.watch import LossWatch
from headrace.client.signals import CHECKPOINTS_VARIABLE
from headrace.core.errors import ConfigError
from headrace.policy.loss import LossLimits, LossMonitor
from headrace.wire.endpoint import CONTROLLER_VARIABLE
from headrace.wire.replication import SIGNALS

pytestmark = pytest.mark.filterwarnings("default")  # the trainers' own

LIMITS = LossLimits(window=16, warm_up=8, recent=3, cool_down=5)
STEADY = [2.0 + 0.01 * (step % 5) for step in range(30)]
SPIKE = [*STEADY, *[9.0] * 5, *STEADY[:5]]
"""Its second high loss, which is the 32nd of all, makes most of the last three high."""


class Signals(list[tuple[str, int]]):
    """Records what is sent."""

    def __call__(self, kind: str, *, step: int) -> None:
        self.append((kind, step))


class GivenLosses(IterableDataset[dict[str, torch.Tensor]]):
    def __init__(self, losses: list[float]) -> None:
        self.losses = losses

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return iter({"loss": torch.tensor([loss])} for loss in self.losses)


class Model(torch.nn.Module):
    """A model whose loss is its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, loss: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": loss.mean() + 0.0 * self.weight.sum()}


def train_huggingface(folder: Path, losses: list[float], signals: Signals, **more: Any) -> None:
    from transformers import Trainer, TrainingArguments

    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "per_device_train_batch_size": 1,
        "max_steps": len(losses),
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_nan_inf_filter": False,
    }
    callback = headrace.callbacks.HuggingFace(LossMonitor(LIMITS), signal=signals)
    Trainer(
        model=Model(),
        args=TrainingArguments(**{**settings, **more}),
        train_dataset=GivenLosses(losses),
        callbacks=[callback],
    ).train()


def test_a_spike_in_a_real_trainer_sends_one_signal(tmp_path: Path) -> None:
    signals = Signals()
    train_huggingface(tmp_path, SPIKE, signals)
    assert signals == [("loss_spike", 32)]


def test_a_loss_that_is_no_number_is_seen_unless_the_trainer_hides_it(tmp_path: Path) -> None:
    signals = Signals()
    train_huggingface(tmp_path, [*STEADY[:12], nan], signals)
    assert signals == [("loss_not_finite", 13)]
    with pytest.warns(UserWarning, match="logging_nan_inf_filter=False"):
        train_huggingface(tmp_path, STEADY[:2], Signals(), logging_nan_inf_filter=True)


def train_lightning(folder: Path, losses: list[float], callback: Any, **returned: Any) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: dict[str, torch.Tensor], index: int) -> Any:
            return {**self.model(batch["loss"]), **returned}

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[callback],
    ).fit(Module(), DataLoader(GivenLosses(losses), batch_size=1))


def test_a_spike_in_a_real_lightning_trainer_sends_one_signal(tmp_path: Path) -> None:
    signals = Signals()
    callback = headrace.callbacks.Lightning(LossMonitor(LIMITS), signal=signals)
    train_lightning(tmp_path, SPIKE, callback)
    assert signals == [("loss_spike", 32)]


def test_a_lightning_trainer_is_looked_at_as_often_as_told(tmp_path: Path) -> None:
    signals = Signals()
    callback = headrace.callbacks.Lightning(LossMonitor(LIMITS), signal=signals, every_n_steps=4)
    train_lightning(tmp_path, [*STEADY[:9], inf, inf, inf, inf], callback)
    assert signals == [("loss_not_finite", 13)]
    with pytest.raises(ConfigError, match="every_n_steps=0"):
        headrace.callbacks.Lightning(every_n_steps=0)


@pytest.mark.parametrize("outputs", [None, {}, {"loss": torch.ones(2)}, "text", {"loss": "a"}])
def test_what_is_no_loss_is_passed_over(outputs: Any) -> None:
    """Where a step optimises by itself, it may return anything."""

    class Trainer:
        is_global_zero = True
        global_step = 1

    signals = Signals()
    callback = headrace.callbacks.Lightning(signal=signals)
    callback.on_train_batch_end(Trainer(), None, outputs, None, 0)  # type: ignore[arg-type]
    assert signals == []


def test_an_alarm_is_logged_and_by_default_left_where_checkpoints_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(CHECKPOINTS_VARIABLE, str(tmp_path))
    monkeypatch.delenv(CONTROLLER_VARIABLE, raising=False)
    monkeypatch.delenv("RANK", raising=False)
    with caplog.at_level(logging.WARNING, logger="headrace.loss"):
        LossWatch().feed(7, nan)
    assert "step 7: the loss nan is a not-finite" in caplog.text
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob(f"{SIGNALS}/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    (left,) = tmp_path.glob(f"{SIGNALS}/*.json")
    sent = json.loads(left.read_text())
    assert (sent["kind"], sent["step"]) == ("loss_not_finite", 7)


def test_a_callback_whose_trainer_is_not_installed_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "import headrace.callbacks\n"
        "try: headrace.callbacks.HuggingFace\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "print('torch' in sys.modules, dir(headrace.callbacks)[:1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "ConfigError headrace.callbacks.HuggingFace needs transformers" in done.stdout
    assert "False" in done.stdout
    with pytest.raises(AttributeError, match="HuggingFace, Lightning"):
        _ = headrace.callbacks.Keras
