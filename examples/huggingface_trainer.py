"""Trains with Hugging Face's Trainer, stops anywhere, and goes on with the next batch.

    python examples/huggingface_trainer.py photos runs/7
    torchrun --nproc-per-node 2 examples/huggingface_trainer.py photos runs/7

PHOTOS is a folder with a folder of pictures for each class, or any dataset with labels. Run again,
also with another number of ranks, it goes on from the newest checkpoint: the loader's state lies
in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import headrace.torch
from headrace import Pipeline, ops

BATCH_SIZE, EPOCHS, SAVE_STEPS = 8, 2, 2
STATE = "headrace.json"


class Inputs:
    """A loader's batches as the model's arguments; each rank's own part already."""

    def __init__(self, loader: headrace.torch.Loader) -> None:
        self.loader = loader
        self.set_epoch = loader.set_epoch

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.loader:
            yield {"pixel_values": batch["image"], "labels": batch["label"]}


class KeepsPosition(TrainerCallback):
    """Writes the loader's state into each checkpoint."""

    def __init__(self, loader: headrace.torch.Loader) -> None:
        self.loader = loader

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Write it where the checkpoint was just saved."""
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            (folder / STATE).write_text(json.dumps(self.loader.state_dict()))


class LoaderTrainer(Trainer):
    """Takes its training batches from a loader, which accelerate must not shard again."""

    def __init__(self, *, loader: headrace.torch.Loader, **options: Any) -> None:
        super().__init__(**options, callbacks=[KeepsPosition(loader)])
        self.loader = loader

    def get_train_dataloader(self) -> Inputs:
        """Return what Trainer loops over."""
        return Inputs(self.loader)

    def go_on(self) -> None:
        """Train from the newest checkpoint, if there is one."""
        newest = get_last_checkpoint(self.args.output_dir)
        if newest is not None:
            self.loader.load_state_dict(json.loads((Path(newest) / STATE).read_text()))
        self.train(resume_from_checkpoint=newest)


class Classifier(torch.nn.Module):
    """Your model."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU())
        self.head = torch.nn.Linear(16, 2)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss of a batch."""
        logits = self.head(self.body(pixel_values).mean((2, 3)))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def main(photos: str, runs: str, *, max_steps: int = -1) -> None:
    arguments = TrainingArguments(
        output_dir=runs,
        per_device_train_batch_size=BATCH_SIZE,  # only told in the log
        num_train_epochs=EPOCHS,
        max_steps=max_steps,
        save_steps=SAVE_STEPS,
        ignore_data_skip=True,  # the loader's state says where it goes on
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )
    Path(runs).mkdir(parents=True, exist_ok=True)
    pipeline = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(32), ops.ToFloat()])
    with headrace.torch.Loader(photos, pipeline=pipeline, batch_size=BATCH_SIZE, seed=7) as loader:
        trainer = LoaderTrainer(loader=loader, model=Classifier(), args=arguments)
        trainer.go_on()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
