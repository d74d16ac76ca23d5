"""Roots of checkpoints in directories, written as Hugging Face's Trainer writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from headrace.controller.journal import Journal
from headrace.controller.replicating.replicating import Replicating, ReplicatingConfig
from headrace.controller.replicating.watch import WatchPeriods
from headrace.policy.replication.terms import ReplicationLimits
from headrace.wire.replication import ReplicationView, ReplicationWanted
from waiting import eventually

MARKER = "trainer_state.json"
SOON = WatchPeriods(busy_s=0.05, idle_s=0.05)
QUICK = ReplicationLimits(stable_s=0.2, first_pause_s=0.05, longest_pause_s=0.2, prune_s=0.2)


def save_shards(root: Path, step: int, *, shards: int = 3, nbytes: int = 20_000) -> Path:
    """Write all of a checkpoint but its marker; return its folder."""
    folder = root / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    names = [f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
    draw = np.random.default_rng(step)
    for number, name in enumerate(names):
        tensor = draw.integers(0, 256, max(1, nbytes), dtype=np.uint8)
        (folder / name).write_bytes(save({f"layer.{number}": tensor}))
    weights = {f"layer.{number}": name for number, name in enumerate(names)}
    index = {"metadata": {"total_size": shards * nbytes}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def save_checkpoint(root: Path, step: int, *, shards: int = 3, nbytes: int = 20_000) -> Path:
    """Write a whole checkpoint; return its folder."""
    folder = save_shards(root, step, shards=shards, nbytes=nbytes)
    (folder / MARKER).write_text(json.dumps({"global_step": step}))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of a checkpoint, without what headrace notes beside them."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".headrace")
    }


def wanted(source: Path | str, destination: Path | str, **terms: object) -> ReplicationWanted:
    """Return the wish to copy from one root to another."""
    return ReplicationWanted(source=str(source), destination=str(destination), **terms)  # type: ignore[arg-type]


@contextmanager
def replicating(journal: Path | None = None, **config: object) -> Iterator[Replicating]:
    """Run replications that look often and lose no time with pauses."""
    kept = Journal(journal)
    agents = config.pop("agents", None)
    settings = {"periods": SOON, "limits": QUICK, **config}
    found = Replicating(ReplicatingConfig(**settings), kept, agents=agents)  # type: ignore[arg-type]
    try:
        yield found
    finally:
        found.close()
        kept.close()


def wait_over(running: Replicating, name: str, timeout_s: float) -> ReplicationView:
    """Wait until a replication that is done once is over."""
    eventually(lambda: running.view(name).over, timeout_s)
    return running.view(name)


def state_of(view: ReplicationView, step: int) -> tuple[str, str]:
    """Return a checkpoint's state, and why."""
    found = next((one for one in view.checkpoints if one.step == step), None)
    return ("", "") if found is None else (found.state, found.reason)
