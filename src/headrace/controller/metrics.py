"""The controller's figures as Prometheus reads them: text, pure.

Written here, for it is a page: the format is a line for each figure, and the client library
would keep a second copy of every figure up to date on the way of each report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headrace.wire.estate import AgentView, ControllerView, Estate, JobView, TierView
from headrace.wire.hotspots import HotspotView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Family:
    """One figure, for each set of labels."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]] = field(default_factory=tuple)

    def lines(self) -> Iterable[str]:
        """Return it as text."""
        yield f"# HELP headrace_{self.name} {self.help}"
        yield f"# TYPE headrace_{self.name} {self.kind}"
        for labels, value in self.samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"headrace_{self.name}{{{inside}}} {value!r}"


def exposition(estate: Estate) -> str:
    """Return all figures of an estate."""
    families = [
        *_of_controller(estate.controller),
        *_of_tiers(estate.tiers),
        *_of_jobs(estate.jobs),
        *_of_shares(estate.jobs),
        *_of_agents(estate.agents),
        *_of_hotspots(estate.hotspots),
    ]
    return "\n".join(line for family in families for line in family.lines()) + "\n"


def _of_controller(view: ControllerView) -> list[Family]:
    none: dict[str, str] = {}
    journal = view.journal
    degraded = float(bool(journal.degraded))
    return [
        Family("controller_uptime_seconds", "gauge", "Since its start.", [(none, view.uptime_s)]),
        Family("reports_total", "counter", "Health reports taken.", [(none, float(view.reports))]),
        Family("refused_total", "counter", "Messages refused.", [(none, float(view.refused))]),
        Family("journal_degraded", "gauge", "1: it cannot be written.", [(none, degraded)]),
        Family("journal_bytes", "gauge", "Size of its files.", [(none, float(journal.nbytes))]),
    ]


def _of_tiers(tiers: Sequence[TierView]) -> list[Family]:
    def family(name: str, text: str, value: str) -> Family:
        samples = [({"tier": one.tier, "media": one.media}, getattr(one, value)) for one in tiers]
        return Family(f"tier_{name}_bytes_per_second", "gauge", text, samples)

    return [
        family("capacity", "What it can be relied on to give.", "bytes_per_s"),
        family("effective", "What is divided now.", "effective_bytes_per_s"),
        family("granted", "All quotas together.", "granted_bytes_per_s"),
        family("pool", "Size of its elastic pool.", "pool_bytes_per_s"),
        family("lent", "Lent from its pool.", "lent_bytes_per_s"),
        family("used", "Read lately.", "used_bytes_per_s"),
    ]


def _of_jobs(jobs: Sequence[JobView]) -> list[Family]:
    def family(name: str, text: str, value: str) -> Family:
        samples = [({"job": one.job}, float(getattr(one, value))) for one in jobs]
        return Family(f"job_{name}", "gauge", text, samples)

    modes = [({"job": one.job, "mode": one.mode, "level": one.level}, 1.0) for one in jobs]
    return [
        family("health", "Prefetch health, 0 to 100.", "score"),
        family("queue_depth_batches", "Batches that lie ready.", "queue_depth"),
        family("queue_capacity_batches", "Batches that may lie ready.", "queue_capacity"),
        family("wait_seconds", "Wait for the newest iteration's batch.", "wait_s"),
        family("step_seconds", "Time of one step.", "step_time_s"),
        family("iteration", "Iterations done.", "iteration"),
        family("silent_seconds", "Since it was heard of.", "age_s"),
        Family("job_diagnosis", "gauge", "1 for the level and the cause that hold.", modes),
    ]


def _of_shares(jobs: Sequence[JobView]) -> list[Family]:
    def family(name: str, text: str, value: str) -> Family:
        samples = [
            ({"job": one.job, "tier": tier}, getattr(share, value))
            for one in jobs
            for tier, share in one.tiers.items()
        ]
        return Family(f"job_{name}_bytes_per_second", "gauge", text, samples)

    return [
        family("asked", "What its need is reckoned at.", "asked_bytes_per_s"),
        family("quota", "Its quota, loans included.", "granted_bytes_per_s"),
        family("lent", "The part that is lent.", "lent_bytes_per_s"),
        family("enforced", "What agents hold it to.", "enforced_bytes_per_s"),
        family("used", "Read lately.", "used_bytes_per_s"),
    ]


def _of_agents(agents: Sequence[AgentView]) -> list[Family]:
    def family(name: str, text: str, value: str) -> Family:
        samples = [({"agent": one.agent}, float(getattr(one, value))) for one in agents]
        return Family(f"agent_{name}", "gauge", text, samples)

    return [
        family("cpu_share", "Use of its host's CPU, 0 to 1.", "cpu_share"),
        family("waiting_samples", "Samples that wait to be prepared.", "waiting"),
        family("silent", "1: it is not counted on.", "silent"),
        family("silent_seconds", "Since it was heard of.", "age_s"),
    ]


def _of_hotspots(views: Sequence[HotspotView]) -> list[Family]:
    def family(name: str, text: str, value: str) -> Family:
        samples = [
            ({"hotspot": one.id, "job": one.job}, float(getattr(one, value))) for one in views
        ]
        return Family(f"hotspot_{name}", "gauge", text, samples)

    states = [({"hotspot": one.id, "job": one.job, "state": one.state}, 1.0) for one in views]
    return [
        family("ready_share", "Part of the bytes with all copies wanted, 0 to 1.", "ready_share"),
        family("lease_seconds", "Until its copies are given back.", "expires_in_s"),
        Family("hotspot_state", "gauge", "1 for the state that holds.", states),
    ]


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
