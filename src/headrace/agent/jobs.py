"""A job as one agent serves it: its open indexes, and its schedule seen from here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace.agent.roots import Located
from headrace.dataset.media import KINDS
from headrace.policy.lookahead_events import Planned
from headrace.policy.placement import owners
from headrace.prepare.job import OpenJob
from headrace.prepare.sample import Preparer
from headrace.transform.fingerprint import compatible
from headrace.wire.messages import Fingerprint, RegisterJob

_FIRST_GUESS_BYTES = {"image": 1 << 20, "video": 16 << 20, "audio": 4 << 20, "text": 64 << 10}
_OTHER_GUESS_BYTES = 1 << 20


class AgentPlan:
    """A job's schedule restricted to the samples that fall to one agent. Immutable."""

    def __init__(self, job: OpenJob, message: RegisterJob, agent: str) -> None:
        self._schedule = job.schedule
        self._cuts = message.cuts
        self._roster = message.roster
        self._own = message.roster.index(agent) if agent in message.roster else -1
        self._kinds = [source.index.kinds for source in job.sources]
        self._costs = [source.index.costs for source in job.sources]
        self._starts = np.cumsum([0, *(source.samples for source in job.spec.sources)])

    def due(self, step: int) -> Sequence[Planned]:
        """Return the samples of a global batch that this agent prepares, each once."""
        batch = self._schedule.batch(step)
        mine = self._is_mine(batch.samples)
        pairs = zip(batch.samples[mine].tolist(), batch.epochs[mine].tolist(), strict=True)
        return [self.foresee(sample, epoch) for sample, epoch in dict.fromkeys(pairs)]

    def foresee(self, sample: int, epoch: int) -> Planned:
        """Return what is known about one sample."""
        source = int(np.searchsorted(self._starts, sample, side="right")) - 1
        row = sample - int(self._starts[source])
        kind = KINDS[self._kinds[source][row]]
        return Planned(
            sample=sample,
            epoch=epoch,
            kind=kind,
            cost_s=float(self._costs[source][row]),
            nbytes=_FIRST_GUESS_BYTES.get(kind, _OTHER_GUESS_BYTES),
            prepare=self._cuts.get(kind, 0) > 0,
        )

    def _is_mine(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if self._own < 0:
            return np.zeros(samples.shape, np.bool_)
        return np.asarray(owners(samples, self._roster) == self._own)


@dataclass(frozen=True, slots=True)
class ServedSource:
    """One dataset of a job, as workers are told of it."""

    number: int
    """Names it among all sources of all jobs."""

    place: Located


@dataclass(slots=True)
class Proof:
    """What this host makes of the golden vectors with a job's pipeline.

    A worker makes it in the background: on a busy host that may take a while, and until then
    the job is served raw bytes.
    """

    fingerprint: Fingerprint | None = None
    failed: str = ""
    """Why there is none, and perhaps never will be."""

    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def settle(self, outcome: Fingerprint | str) -> None:
        """Take in the golden vectors, or why they could not be made."""
        if isinstance(outcome, str):
            self.failed = outcome
        else:
            self.failed, self.fingerprint = "", outcome
        self.settled.set()

    def why_raw_only(self, theirs: Fingerprint) -> str:
        """Return why samples made here are not to be trusted by a client; empty if they are."""
        if self.failed:
            return self.failed
        if self.fingerprint is None:
            return "the golden vectors are not made yet; raw bytes until then"
        return compatible(self.fingerprint, theirs) or ""


@dataclass(slots=True)
class ServedJob:
    """One registered job."""

    open: OpenJob
    message: RegisterJob
    """The latest registration."""

    clients: tuple[Fingerprint, ...]
    """What the hosts of all ranks make of the golden vectors; every one has to agree."""

    sources: tuple[ServedSource, ...]
    preparers: tuple[Preparer, ...]
    """Read encoded samples of each source, for raw answers."""

    proof: Proof
    release: Callable[[], None]
    """Gives back the storages; for when nothing of the job is read any more."""

    requests: set[int] = field(default_factory=set)
    last_used: float = 0.0

    @property
    def raw_only(self) -> str:
        """Why nothing is transformed for now; empty when all is well."""
        reasons = (self.proof.why_raw_only(client) for client in self.clients)
        return next((reason for reason in reasons if reason), "")

    @property
    def samples(self) -> int:
        """Samples of all sources."""
        return sum(source.samples for source in self.message.spec.sources)

    def cut(self, sample: int) -> int:
        """Return how many ops this agent applies to a sample."""
        return self.message.cuts.get(self.open.kind(sample), 0)
