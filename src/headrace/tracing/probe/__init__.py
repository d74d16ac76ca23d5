"""Runs inside a traced program: watches it and writes what it sees to a spool.

Uses the standard library only and imports no library of the program's: what it watches, it
changes when the program has imported it. It is loaded from its files, under another name,
also by interpreters that have no headrace; so its modules name each other relatively.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

from .checkpoints import Checkpoints
from .files import watch_open
from .imports import Watch, after_import
from .loads import watch_workers
from .loops import watch_dataloader
from .optimizers import Optimizers
from .ranks import Ranks
from .remote import RemoteFiles
from .spool import SPOOL_VARIABLE, Spool
from .tensors import Safetensors
from .tracer import Tracer

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "headrace")
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "headrace")


def start() -> None:
    """Begin to watch this process, if ``headrace trace run`` started it."""
    folder = os.environ.get(SPOOL_VARIABLE)
    if folder is None or is_launcher(sys.orig_argv):
        return
    tracer = Tracer(Spool(Path(folder)))
    watch_open(tracer)
    after_import(_watches(tracer))


def is_launcher(command: list[str]) -> bool:
    """Tell whether a Python's command line is of a program that only starts others.

    Such a program is not watched; what it starts is.
    """
    for word, following in pairwise([*command[1:], ""]):
        if word == "-m":
            return following in _LAUNCHER_MODULES
        if not word.startswith("-"):
            return Path(word).name in _LAUNCHERS
    return False


def _watches(tracer: Tracer) -> dict[str, Watch]:
    checkpoints, tensors = Checkpoints(tracer), Safetensors(tracer)
    return {
        "torch.utils.data.dataloader": lambda module: watch_dataloader(module, tracer),
        "torch.utils.data._utils.worker": lambda module: watch_workers(module, tracer),
        "torch.optim.optimizer": Optimizers(tracer).watch,
        "torch.distributed.distributed_c10d": Ranks(tracer).watch,
        "torch.serialization": checkpoints.watch_serialization,
        "lightning.fabric.utilities.cloud_io": checkpoints.watch_lightning,
        "lightning_fabric.utilities.cloud_io": checkpoints.watch_lightning,
        "torch.distributed.checkpoint.state_dict_loader": checkpoints.watch_distributed_loads,
        "torch.distributed.checkpoint.state_dict_saver": checkpoints.watch_distributed_saves,
        "safetensors": tensors.watch_tensors,
        "safetensors.torch": tensors.watch_files,
        "safetensors.numpy": tensors.watch_files,
        "fsspec.spec": RemoteFiles(tracer).watch,
    }
