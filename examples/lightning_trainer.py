"""Trains with Lightning, stops anywhere, and goes on with the next batch.

    python examples/lightning_trainer.py photos runs/7

PHOTOS is a folder with a folder of pictures for each class, or any dataset with labels. Run again,
it goes on from the newest checkpoint: Lightning keeps the loader's state in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import headrace.torch
from headrace import Pipeline, ops

BATCH_SIZE, EPOCHS, SAVE_STEPS = 8, 2, 2


class Classifier(lightning.LightningModule):
    """Your module."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU())
        self.head = torch.nn.Linear(16, 2)

    def training_step(self, batch: headrace.torch.TensorBatch, _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        logits = self.head(self.body(batch["image"]).mean((2, 3)))
        return torch.nn.functional.cross_entropy(logits, batch["label"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return what takes the steps."""
        return torch.optim.AdamW(self.parameters())


class Photos(lightning.LightningDataModule):
    """Makes the loader in each rank's process, when its rank is known."""

    def __init__(self, photos: str) -> None:
        super().__init__()
        self.photos = photos

    def train_dataloader(self) -> headrace.torch.Loader:
        """Return what the trainer loops over."""
        pipeline = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(32), ops.ToFloat()])
        self.loader = headrace.torch.Loader(
            self.photos, pipeline=pipeline, batch_size=BATCH_SIZE, seed=7
        )
        return self.loader

    def teardown(self, stage: str) -> None:  # noqa: ARG002 - as the trainer calls it
        """Stop the loader's threads."""
        self.loader.close()


def main(photos: str, runs: str, *, max_steps: int = -1) -> None:
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        max_steps=max_steps,
        callbacks=[ModelCheckpoint(dirpath=runs, every_n_train_steps=SAVE_STEPS, save_last=True)],
        default_root_dir=runs,
        logger=False,
        enable_progress_bar=False,
    )
    newest = Path(runs) / "last.ckpt"
    begin = newest if newest.exists() else None
    trainer.fit(Classifier(), Photos(photos), ckpt_path=begin, weights_only=True)
    print(f"trained up to step {trainer.global_step}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
