"""Carries out the measurements on a cluster that is up, one after another."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import headrace
from bench.checkpoints.cluster import Crew, at_full_speed, clear_scratch, places_on, store
from bench.checkpoints.control import RunningController
from bench.checkpoints.orders import Done, Load, Save
from bench.startup.bound import Bound
from bench.startup.scale import Scale, tried
from headrace.client.announcing import Announcement
from headrace.core.errors import DeadlineError
from testbed import Testbed
from testbed.host import Host
from testbed.patience import until
from testbed.services import Services

FOLDER = "runs/step-1000"
LOWERED_S = 60.0
"""Within this time copies that were given back are gone [s]."""

NOT_ENDED = float("inf")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One load."""

    wall_s: float
    """From the barrier to the slowest rank's end [s]."""

    cpu_s: float
    """Of all ranks [s]."""

    sent_bytes: tuple[int, ...]
    """Of each DataNode's link."""

    ready_s: float = 0.0
    """From the announcement until all copies were there [s]."""

    copies: int = 0
    """Of the file that was copied most; 0: nothing was announced."""

    load_s: tuple[float, ...] = ()
    """Of each rank [s]."""


@dataclass(kw_only=True, slots=True)
class Found:
    """Everything that was measured."""

    tuning: dict[str, float] = field(default_factory=dict)
    """Setting of the baseline → load time; infinite: it did not end in time [s]."""

    baseline: list[Measured] = field(default_factory=list)
    ours: list[Measured] = field(default_factory=list)
    ablations: dict[str, Measured] = field(default_factory=dict)
    ample: dict[str, Measured] = field(default_factory=dict)
    """Loads with links that do not bound, one rank per host."""

    @property
    def best(self) -> str:
        """The quickest setting of the baseline."""
        return min(self.tuning, key=lambda name: self.tuning[name])


class Experiments:
    """Loads a checkpoint on a bed again and again.

    Args:
        bed: Where.
        services: What runs there.
        crew: Whose ranks load.
        controller: Whom checkpoints are announced to.
        scale: How much is measured.
    """

    def __init__(
        self,
        bed: Testbed,
        services: Services,
        crew: Crew,
        controller: RunningController,
        scale: Scale,
    ) -> None:
        self._services = services
        self._crew = crew
        self._controller = controller
        self._scale = scale
        self._storage = bed.by_role("storage")
        self._trainers = bed.by_role("trainer")
        self._url = f"{services.hdfs.url}/{FOLDER}"
        self._files: dict[str, int] = {}

    def run(self) -> Found:
        """Measure all that the scale asks for."""
        self._save()
        found = Found()
        self._tune(found)
        for _ in range(self._scale.repeats):
            found.baseline.append(self._baseline(found.best))
            found.ours.append(self._announced())
        if self._scale.further:
            found.ablations["without announcing"] = self._ours("not announced")
            found.ablations["without once per host"] = self._announced({"sharing": None})
            self._ample(found)
        return found

    def bound(self) -> Bound:
        """Return what has to cross links; the checkpoint was saved."""
        shared = self._scale.model.embedding_bytes + self._files[".metadata"]
        return Bound(
            own_bytes=sum(self._files.values()) - shared,
            shared_bytes=shared,
            hosts=len(self._trainers),
            datanodes=len(self._storage),
            datanode_bytes_per_s=_bytes_per_s(self._storage),
            host_bytes_per_s=_bytes_per_s(self._trainers),
        )

    def _save(self) -> None:
        ranks = len(self._trainers) * self._scale.ranks_per_host
        with tempfile.TemporaryDirectory() as folder, at_full_speed(self._storage):
            save = Save(folder=folder)
            self._crew.carry_out(self._scale.model, save, [None] * ranks, mesh=(ranks,))
            self._files = {file.name: file.stat().st_size for file in Path(folder).iterdir()}
            store(Path(folder), self._services.hdfs.url, FOLDER)

    def _tune(self, found: Found) -> None:
        for name in tried(self._scale):
            try:
                found.tuning[name] = self._baseline(name).wall_s
            except DeadlineError:
                found.tuning[name] = NOT_ENDED
        if found.tuning[found.best] == NOT_ENDED:
            raise DeadlineError(
                f"no setting of the baseline loads within {self._scale.longest_s:g} s here"
            )

    def _baseline(self, name: str, ranks_per_host: int | None = None) -> Measured:
        setting = tried(self._scale)[name]
        work = Load(
            url=setting.get("prefix", "") + self._url,
            reader="fsspec",
            options=setting.get("options", {}),
        )
        return self._load(f"baseline ({name})", work, ranks_per_host)

    def _ours(
        self,
        name: str,
        options: dict[str, Any] | None = None,
        ranks_per_host: int | None = None,
    ) -> Measured:
        work = Load(url=self._url, reader="headrace", options=options or {})
        return self._load(f"headrace ({name})", work, ranks_per_host)

    def _announced(self, options: dict[str, Any] | None = None) -> Measured:
        """Announce, load once all copies are there or the time is up, and give them back."""
        begin_s = time.monotonic()
        announcement = headrace.announce(
            self._url,
            world_size=len(self._trainers) * self._scale.ranks_per_host,
            hosts=None if options else len(self._trainers),
            eta_s=self._scale.eta_s,
            controller=self._controller.url,
            token=self._controller.token,
            strict=True,
        )
        try:
            announcement.ready(self._scale.ready_s)
            ready_s, copies = time.monotonic() - begin_s, _most_copies(announcement)
            measured = self._ours(f"{copies} copies after {ready_s:.1f} s", options)
        finally:
            announcement.release()
            self._wait_lowered(announcement)
        return msgspec.structs.replace(measured, ready_s=ready_s, copies=copies)

    def _wait_lowered(self, announcement: Announcement) -> None:
        def lowered() -> bool:
            view = announcement.view()
            return view is None or view.state in ("gone", "skipped", "failed")

        until(lowered, longest_s=LOWERED_S, what="copies were not given back")

    def _ample(self, found: Found) -> None:
        with at_full_speed([*self._storage, *self._trainers]):
            found.ample["baseline"] = self._baseline(found.best, ranks_per_host=1)
            found.ample["headrace"] = self._ours("ample links", ranks_per_host=1)

    def _load(self, name: str, work: Load, ranks_per_host: int | None) -> Measured:
        places = places_on(self._trainers, ranks_per_host or self._scale.ranks_per_host)
        before = _sent(self._storage)
        try:
            done = self._crew.carry_out(
                self._scale.model,
                work,
                places,
                mesh=(len(places),),
                ip=self._trainers[0].ip,
                longest_s=self._scale.longest_s,
            )
        finally:
            clear_scratch(self._trainers)
        measured = _measured(done, before, _sent(self._storage))
        _say(f"{name}: {measured.wall_s:.1f} s")
        return measured


def controller_config(storage: Sequence[Host]) -> str:
    """Return what the controller is told of the estate: how fast its DataNodes are.

    As each host reads what its ranks share once, and all at the same moment, no two hosts are
    to share a DataNode.
    """
    rate = _bytes_per_s(storage)
    return f"[hotspot]\nnode_bytes_per_s = {rate:.1f}\nreaders_per_copy = 1.0\n"


def _measured(done: Done, before: Sequence[int], after: Sequence[int]) -> Measured:
    begin_s = min(rank.begin_s for rank in done.ranks)
    return Measured(
        wall_s=done.wall_s,
        cpu_s=sum(rank.cpu_s for rank in done.ranks),
        sent_bytes=tuple(b - a for a, b in zip(before, after, strict=True)),
        load_s=tuple(rank.end_s - begin_s for rank in done.ranks),
    )


def _most_copies(announcement: Announcement) -> int:
    view = announcement.view()
    return max((file.live for file in view.files), default=0) if view else 0


def _sent(hosts: Sequence[Host]) -> list[int]:
    return [host.network_bytes().sent for host in hosts]


def _bytes_per_s(hosts: Sequence[Host]) -> float:
    """Return the rate of each one's link [B/s]."""
    rate = hosts[0].spec.group.rate_mbit_per_s
    assert rate is not None
    return rate * 1e6 / 8


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
