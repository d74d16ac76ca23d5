"""headrace with its defaults, alone or with an agent beside it that prepares everything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from bench.loader import PIPELINE
from bench.peers.serving import BATCH, Settings, serve
from headrace import Loader
from headrace.agent.local import LocalAgent

_AGENT = ("--workers", str(len(os.sched_getaffinity(0))), "--cpu-threshold", "1")
"""It minds nobody else: all that loads its CPUs is this."""

_agents: list[int] = []


def batches(folder: Path, settings: Settings) -> Iterator[np.ndarray]:
    """Yield batches, epoch after epoch; of an agent's samples if ``agent`` is true."""
    with ExitStack() as running:
        beside = {}
        if settings["agent"]:
            agent = running.enter_context(LocalAgent([folder], options=_AGENT))
            _agents.append(agent.pid)
            beside = {"agents": [agent.address], "token": agent.token, "require_agents": True}
        loader = running.enter_context(
            Loader(str(folder), pipeline=PIPELINE, batch_size=BATCH, **beside)
        )
        while True:
            for batch in loader:
                yield batch["image"]


if __name__ == "__main__":
    serve(batches, others=lambda: _agents)
