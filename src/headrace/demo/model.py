"""A real, small torch model for ``--torch``: a patch classifier, trained on every batch."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import nn

from headrace.core.record import AnyArray
from headrace.demo.feeds import Fed

CLASSES = 32
PATCH = 16


class SmallModel:
    """Trains on CPU, on one thread, or on the first GPU where there is one."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._layers = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=PATCH, stride=PATCH),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, CLASSES),
        ).to(self._device)
        self._optimiser = torch.optim.AdamW(self._layers.parameters(), lr=1e-3)
        self.last_loss = float("nan")

    def train_on(self, batch: Fed) -> None:
        """Take one optimiser step on the batch's images and their labels."""
        images, rows = batch.columns.get("image"), batch.rows("image")
        if not isinstance(images, np.ndarray):
            return
        inputs = torch.from_numpy(images).to(self._device)
        labels = torch.from_numpy(cast(AnyArray, batch.columns["label"])[rows]).to(self._device)
        loss = nn.functional.cross_entropy(self._layers(inputs), labels.long() % CLASSES)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.last_loss = float(loss.detach())
