"""What is done to the loops, and what they are seen to hold meanwhile."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.soak.data import write_dataset
from bench.soak.loop import LoopPlan, Progress
from bench.soak.rank import Rank
from bench.soak.vitals import Vitals, vitals
from headrace.agent.local import LocalAgent
from headrace.dataset.build import build_index
from headrace.storage.local import LocalStorage

ALONE, PAIRED, AGENT = "loader without agents", "loader with an agent", "agent"

AGENT_OPTIONS = (
    "--workers", "1", "--memory", "96MiB", "--cache-memory", "4MiB", "--cache-bytes", "4MiB",
    "--cpu-threshold", "1",
)  # fmt: skip
"""Its cache holds less than the dataset, so it evicts; and it always prepares, although both loops
want all of the CPUs."""

_SETTLED_LOOKS = 20
"""That medians are taken of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How long and how often."""

    minutes: float
    every_s: float = 2.0
    """Time from one look to the next [s]."""

    restarts: int = 10
    """Of a rank, of the agent, and of a loader in its rank."""

    settle_s: float = 10.0
    """Time to come back to work after the last of them, and then to be looked at [s]."""


class Bed:
    """Two loops and an agent that run."""

    def __init__(self, ranks: Mapping[str, Rank], agent: LocalAgent, folder: Path) -> None:
        self.ranks = ranks
        self.agent = agent
        self._folder = folder

    def look(self) -> dict[str, Vitals]:
        """Return what each side holds now."""
        found = {name: vitals(rank.pid, self._folder / name) for name, rank in self.ranks.items()}
        return found | {AGENT: vitals(self.agent.pid, self._folder / AGENT)}

    def progress(self) -> dict[str, Progress]:
        """Return what each loop told last."""
        return {name: rank.progress for name, rank in self.ranks.items()}


@dataclass(frozen=True, slots=True)
class Look:
    """What all sides held at a moment."""

    at_s: float
    """Since the loops were started [s]."""

    sides: Mapping[str, Vitals]
    progress: Mapping[str, Progress]


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What a side held over a while: medians."""

    own_bytes: float
    shared_bytes: float
    """Of these."""

    handles: Mapping[str, float]
    """By kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Restarted:
    """What a process that went on held before and after something was ended many times."""

    what: str
    """Was ended, and begun again."""

    side: str
    before: Held
    after: Held


@contextmanager
def bed() -> Iterator[Bed]:
    """Make a dataset, start an agent and both loops; all is gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root, cache = folder / "dataset", folder / "cache"
        for made in (root, cache, *(folder / side for side in (ALONE, PAIRED, AGENT))):
            made.mkdir()
        write_dataset(root)
        storage = LocalStorage(root)
        build_index(storage).save(storage)
        stack.enter_context(_environment(folder))
        options = (*AGENT_OPTIONS, "--cache", str(cache))
        agent = stack.enter_context(LocalAgent([root], options=options))
        ranks = {
            name: Rank(_plan(folder, name, agent if name == PAIRED else None), folder / name)
            for name in (ALONE, PAIRED)
        }
        for rank in ranks.values():
            stack.callback(rank.kill)
            rank.start()
        yield Bed(ranks, agent, folder)


def _plan(folder: Path, name: str, agent: LocalAgent | None) -> LoopPlan:
    return LoopPlan(
        root=str(folder / "dataset"),
        state=str(folder / f"{name}.json"),
        agents=(agent.address,) if agent else (),
        token=agent.token if agent else "",
    )


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """Let what is started record its events, and make the agent's temporary files, in a folder."""
    ours = {"HEADRACE_TRACE": str(folder / "traces"), "TMPDIR": str(folder / AGENT)}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def soak(where: Bed, scale: Scale, tell: Callable[[Look], None]) -> list[Look]:
    """Look at all sides every few seconds while the loops go on."""
    begin_s, looks = time.monotonic(), list[Look]()
    while (at_s := time.monotonic() - begin_s) < scale.minutes * 60:
        looks.append(Look(at_s, where.look(), where.progress()))
        tell(looks[-1])
        next_s = begin_s + len(looks) * scale.every_s
        time.sleep(max(0.0, next_s - time.monotonic()))
    return looks


def reopen_loader(where: Bed, scale: Scale) -> Restarted:
    """Close the loader that has no agent and make it anew, many times; look at its rank."""
    return _restarted("its loader", ALONE, where.ranks[ALONE].reopen, where, scale)


def restart_rank(where: Bed, scale: Scale) -> Restarted:
    """Kill the rank that has an agent and start it again, many times; look at the agent."""
    rank = where.ranks[PAIRED]

    def restart() -> None:
        rank.kill()
        rank.start()

    return _restarted("the rank", AGENT, restart, where, scale)


def restart_agent(where: Bed, scale: Scale) -> Restarted:
    """Kill the agent and start it again, many times; look at the rank that it serves."""
    rank = where.ranks[PAIRED]

    def restart() -> None:
        where.agent.kill()
        where.agent.start()
        prepared = rank.progress.prepared
        rank.wait_until(lambda told: told.prepared > prepared)

    return _restarted("the agent", PAIRED, restart, where, scale)


def _restarted(
    what: str, side: str, restart: Callable[[], None], where: Bed, scale: Scale
) -> Restarted:
    before = _settled(side, where, scale)
    for _ in range(scale.restarts):
        restart()
    time.sleep(scale.settle_s)
    return Restarted(what=what, side=side, before=before, after=_settled(side, where, scale))


def _settled(side: str, where: Bed, scale: Scale) -> Held:
    looks = list[Vitals]()
    for _ in range(_SETTLED_LOOKS):
        looks.append(where.look()[side])
        time.sleep(scale.settle_s / _SETTLED_LOOKS)
    kinds = sorted({kind for look in looks for kind in look.handles})
    return Held(
        own_bytes=median(look.own_bytes for look in looks),
        shared_bytes=median(look.shared_bytes for look in looks),
        handles={kind: median(look.handles[kind] for look in looks) for kind in kinds},
    )
