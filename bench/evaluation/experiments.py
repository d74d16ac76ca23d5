"""Carries out the measurements on both sites, one after another."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.checkpoints.cluster import Crew, places_on
from bench.checkpoints.control import controller_on
from bench.checkpoints.orders import READERS, Load, LoadTensors, Place, Reader, Work
from bench.evaluation.copying import Control, Copied, Sites
from bench.evaluation.scale import Scale, tried
from headrace.core.errors import DeadlineError
from testbed import Testbed

RUN = "run"
STEP = f"{RUN}/step-100"
TENSORS = "models/tensors"


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """One load by all evaluators."""

    wall_s: float
    """From the barrier to the slowest rank's end [s]."""

    cpu_s: float
    """Of all ranks [s]."""

    line_bytes: int
    """That crossed the line meanwhile."""

    shared_bytes: int
    """That ranks took from others of their host, in all; headrace's reader counts them."""


@dataclass(kw_only=True, slots=True)
class Found:
    """Everything that was measured."""

    tuning: dict[str, float] = field(default_factory=dict)
    """Setting of the baseline → load time; infinite: it did not end in time [s]."""

    baseline: list[Loaded] = field(default_factory=list)
    without_copy: list[Loaded] = field(default_factory=list)
    with_copy: list[Loaded] = field(default_factory=list)
    tensors: dict[Reader, list[Loaded]] = field(default_factory=dict)
    """Loads of the same model as safetensors through the line, by one rank, by reader."""

    file_copies: dict[int, list[Copied]] = field(default_factory=dict)
    """Workers → copies."""

    copies: list[Copied] = field(default_factory=list)
    alone: list[Copied] = field(default_factory=list)
    beside: list[Copied] = field(default_factory=list)
    """An urgent checkpoint while others are on their way, and alone, within a budget."""

    @property
    def best(self) -> str:
        """The quickest setting of the baseline."""
        return min(self.tuning, key=lambda name: self.tuning[name])

    @property
    def best_workers(self) -> int:
        """With which the file copy was quickest."""
        return min(
            self.file_copies, key=lambda n: min(one.readable_s for one in self.file_copies[n])
        )


class Experiments:
    """Loads and copies one checkpoint again and again.

    Args:
        bed: Both sites.
        sites: Where it is saved and copied.
        crew: Whose ranks load.
        token: Of the controller.
        scale: How much is measured.
    """

    def __init__(self, bed: Testbed, sites: Sites, crew: Crew, token: str, scale: Scale) -> None:
        self._bed = bed
        self._sites = sites
        self._crew = crew
        self._token = token
        self._scale = scale
        trainers = bed.by_role("trainer", "away")
        self._evaluators = [host for host in trainers if host.spec.group.prefix == "evaluator"]
        (self._mover,) = (host for host in trainers if host not in self._evaluators)

    def run(self) -> Found:
        """Measure all that the scale asks for."""
        found = Found()
        self._copy(found)
        self._tune(found)
        for _ in range(self._scale.repeats):
            found.baseline.append(self._baseline(found.best))
            found.without_copy.append(self._ours("without the copy", self._sites.home))
            found.with_copy.append(self._ours("with the copy", self._sites.away))
        self._load_tensors(found)
        if self._scale.urgent:
            self._urgent(found)
        return found

    def _tune(self, found: Found) -> None:
        for name in tried(self._scale):
            try:
                found.tuning[name] = self._baseline(name).wall_s
            except DeadlineError:
                found.tuning[name] = math.inf
        if math.isinf(found.tuning[found.best]):
            raise DeadlineError(
                f"no setting of the baseline loads within {self._scale.longest_s:g} s here"
            )

    def _copy(self, found: Found) -> None:
        """Copy by files and by headrace in turns; one of headrace's is what evaluators load."""
        with controller_on(self._mover, self._token) as controller, Control(controller) as control:
            self._sites.copied_by_headrace(RUN, control)
            for turn in range(self._scale.copy_repeats):
                for workers in self._scale.copy_workers:
                    path = f"files-{workers}-{turn}/step-100"
                    copied = self._sites.copied_by_files(path, self._mover, workers)
                    found.file_copies.setdefault(workers, []).append(copied)
                    _say(f"file copy, {workers} workers: {copied.readable_s:.1f} s")
                copied = self._sites.copied_by_headrace(f"copies-{turn}", control)
                found.copies.append(copied)
                _say(f"headrace replicate: {copied.readable_s:.1f} s")

    def _urgent(self, found: Found) -> None:
        budget = ["--copy-budget", str(self._scale.budget_bytes_per_s)]
        with (
            controller_on(self._mover, self._token, budget) as controller,
            Control(controller) as control,
        ):
            for turn in range(self._scale.copy_repeats):
                found.alone.append(self._sites.urgent(f"alone-{turn}", control, others=0))
                _say(f"urgent, alone: {found.alone[-1].readable_s:.1f} s")
                beside = self._sites.urgent(f"beside-{turn}", control, others=self._scale.others)
                found.beside.append(beside)
                _say(f"urgent, beside others: {beside.readable_s:.1f} s")

    def _baseline(self, name: str) -> Loaded:
        return self._load(
            f"baseline ({name})", self._sites.home, "fsspec", tried(self._scale)[name]
        )

    def _ours(self, name: str, root: str) -> Loaded:
        return self._load(f"headrace ({name})", root, "headrace", {})

    def _load(self, name: str, root: str, reader: Reader, options: dict[str, Any]) -> Loaded:
        places = places_on(self._evaluators, self._scale.ranks_per_host)
        work = Load(url=f"{root}/{STEP}", reader=reader, options=options, with_optimizer=False)
        return self._carried_out(name, work, places)

    def _load_tensors(self, found: Found) -> None:
        self._sites.save_tensors(self._crew, TENSORS)
        url = f"{self._sites.home}/{TENSORS}"
        for _ in range(self._scale.repeats):
            for reader in READERS:
                work, place = (
                    LoadTensors(url=url, reader=reader),
                    places_on(self._evaluators, 1)[:1],
                )
                loaded = self._carried_out(f"safetensors, {reader}", work, place)
                found.tensors.setdefault(reader, []).append(loaded)

    def _carried_out(self, name: str, work: Work, places: Sequence[Place]) -> Loaded:
        before = self._bed.line_bytes().onwards
        done = self._crew.carry_out(
            self._scale.model,
            work,
            places,
            mesh=(len(places), 1),
            ip=self._evaluators[0].ip,
            longest_s=self._scale.longest_s,
        )
        loaded = Loaded(
            wall_s=done.wall_s,
            cpu_s=sum(rank.cpu_s for rank in done.ranks),
            line_bytes=self._bed.line_bytes().onwards - before,
            shared_bytes=sum(rank.statistics.get("shared_bytes", 0) for rank in done.ranks),
        )
        _say(f"{name}: {loaded.wall_s:.1f} s")
        return loaded


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
