"""Killed at any moment, a replication goes on where it was, and nothing half is ever seen."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from roots_for_tests import content, replicating, save_checkpoint, wait_over, wanted

from headrace.checkpoint.find import find_checkpoints
from headrace.storage.local import LocalStorage

TRIES = 8


def replicate_in_a_child(source: Path, destination: Path) -> int:
    """Fork a process that copies once, and return its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    signal.alarm(60)  # it ends even if a lock was held when it was forked
    try:
        with replicating(bytes_per_s=40 << 20) as running:
            running.begin("r", wanted(source, destination, once=True, keep=2))
            status = 0 if wait_over(running, "r", 30.0).over else 1
    finally:
        os._exit(status)


def require_whole(source: Path, destination: Path) -> list[str]:
    """Check that what is seen as complete is; return the names."""
    found = [one for one in find_checkpoints(LocalStorage(destination)) if one.complete]
    for one in found:
        assert content(destination / one.path) == content(source / one.path), one.path
    return [one.path for one in found]


def test_a_replicator_that_is_killed_goes_on(tmp_path: Path) -> None:
    """Seed 5: killed 8 times, 30 ms to 0.6 s after its start."""
    source, destination = tmp_path / "source", tmp_path / "destination"
    destination.mkdir()
    draw = random.Random(5)
    for step in (100, 200, 300):
        save_checkpoint(source, step, shards=6, nbytes=3 << 20)
    for _ in range(TRIES):
        child = replicate_in_a_child(source, destination)
        time.sleep(draw.uniform(0.03, 0.6))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        require_whole(source, destination)
    _, status = os.waitpid(replicate_in_a_child(source, destination), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert require_whole(source, destination) == ["checkpoint-200", "checkpoint-300"]
    # A writer that is killed while it names a file, or where all files have names, leaves a part.
    left = [path for path in (destination / ".headrace").rglob("[!.]*") if path.is_file()]
    assert left == []
