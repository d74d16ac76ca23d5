"""Trains a linear classifier of pictures with nothing but NumPy.

    python examples/numpy_loop.py photos

PHOTOS is a folder with a folder of pictures for each class, or any dataset with labels.
"""

from __future__ import annotations

import sys

import numpy as np

import headrace
from headrace import Pipeline, ops

EPOCHS, RATE = 3, 0.001


def main(photos: str) -> None:
    pipeline = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(32), ops.ToFloat()])
    weights = np.zeros((3 * 32 * 32, 2), np.float32)
    with headrace.Loader(photos, pipeline=pipeline, batch_size=8, seed=7) as loader:
        for _ in range(EPOCHS):
            for batch in loader:
                pixels, labels = batch["image"].reshape(batch.size, -1), batch["label"]
                logits = pixels @ weights
                odds = np.exp(logits - logits.max(1, keepdims=True))
                odds /= odds.sum(1, keepdims=True)
                loss = -np.log(odds[np.arange(batch.size), labels]).mean()
                odds[np.arange(batch.size), labels] -= 1
                weights -= RATE * pixels.T @ odds / batch.size
            print(f"epoch {batch.epoch}: loss {loss:.3f}")
        print(loader.summary())


if __name__ == "__main__":
    main(sys.argv[1])
