"""Real checkpoints, written once for all tests of a session."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def dcp_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the folder ``step-7`` of a checkpoint of so many ranks, which tests leave whole."""
    from saved_dcp import save_dcp

    made: dict[int, Path] = {}

    def make(world: int = 4) -> Path:
        if world not in made:
            folder = tmp_path_factory.mktemp(f"dcp-{world}") / "step-7"
            made[world] = save_dcp(folder, world=world)
        return made[world]

    return make


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let a test take 1 GiB beyond what the process has; more is a ``MemoryError``."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)
