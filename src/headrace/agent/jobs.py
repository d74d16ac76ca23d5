"""A job as one agent serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.agent.atlas import Atlas
from headrace.agent.plan import AgentPlan
from headrace.agent.roots import Located
from headrace.agent.tiers import OTHER_TIER
from headrace.core.media import TierName
from headrace.prepare.job import OpenJob
from headrace.prepare.sample import Preparer
from headrace.transform.fingerprint import compatible
from headrace.wire.messages import Fingerprint, RegisterJob


@dataclass(frozen=True, slots=True)
class ServedSource:
    """One dataset of a job, as workers are told of it."""

    number: int
    """Names it among all sources of all jobs."""

    place: Located
    tier: TierName = OTHER_TIER
    """Tier of storage that it lies on."""

    index: Located | None = None
    """Folder of its index; None: ``place``."""


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

    atlas: Atlas
    """Where its blocks lie, as far as it is known here."""

    plan: AgentPlan
    """Its schedule as it falls to this agent."""

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
