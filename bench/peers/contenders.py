"""Who is compared: where each is installed, what it is tuned by, and whom it stands against."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.environments import environment
from bench.peers.driving import ROOT
from bench.peers.serving import Settings

CPUS = len(os.sched_getaffinity(0))
WORKERS = tuple({"workers": count} for count in (CPUS, CPUS + 1, 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """One loader."""

    title: str
    module: str
    """In ``bench.peers``."""

    tried: Sequence[Settings]
    """What it is tuned by; the first is taken where nothing is tried."""

    requirements: str = ""
    """File of ``requirements/`` whose environment it has; none: this program's."""

    rival: str = "headrace"
    """The headrace that does the work at the same place."""

    def python(self) -> Path:
        """Return what runs it; its environment is installed the first time.

        Raises:
            RemoteError: it cannot be installed.
        """
        if not self.requirements:
            return Path(sys.executable)
        pins = (ROOT / "requirements" / f"{self.requirements}.txt").read_text().splitlines()
        return environment(f"bench-peers/{self.requirements}", pins) / "python"


_AGENT = "headrace_agent"
CONTENDERS: Mapping[str, Contender] = {
    "headrace": Contender(
        title="headrace",
        module="headrace_loader",
        tried=({"agent": False},),
    ),
    _AGENT: Contender(
        title="headrace + agent",
        module="headrace_loader",
        tried=({"agent": True},),
    ),
    "tf_data": Contender(
        title="tf.data",
        module="tf_data",
        tried=({"parallel": -1}, {"parallel": CPUS}),
        requirements="peers-tensorflow",
    ),
    "tf_data_service": Contender(
        title="tf.data service",
        module="tf_data_service",
        tried=({"parallel": -1}, {"parallel": CPUS}),
        requirements="peers-tensorflow",
        rival=_AGENT,
    ),
    "ray_data": Contender(
        title="Ray Data",
        module="ray_data",
        tried=({"beside": False, "tasks": None}, {"beside": False, "tasks": CPUS}),
        requirements="peers-ray",
    ),
    "ray_data_node": Contender(
        title="Ray Data + node",
        module="ray_data",
        tried=({"beside": True, "tasks": None},),
        requirements="peers-ray",
        rival=_AGENT,
    ),
    "streaming": Contender(
        title="MosaicML Streaming",
        module="mosaic_streaming",
        tried=WORKERS,
    ),
    "dataloader": Contender(
        title="torch DataLoader",
        module="torch_dataloader",
        tried=WORKERS,
    ),
    "spdl": Contender(
        title="SPDL",
        module="spdl_pipeline",
        tried=tuple(
            {"threads": threads, "whole_batches": whole}
            for threads, whole in ((CPUS, True), (CPUS, False), (CPUS + 1, True))
        ),
    ),
}
