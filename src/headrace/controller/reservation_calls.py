"""What can be asked of the controller about jobs, agents and their bandwidth."""

from __future__ import annotations

from importlib.metadata import version
from typing import get_args

from headrace.controller import views
from headrace.controller.call import ANYTHING, Asked, Call, Parts
from headrace.controller.ledger import Query
from headrace.controller.steward import Steward
from headrace.core.errors import CallerError
from headrace.policy.reservation.events import Level
from headrace.wire.control import (
    MOST_REPORT_BYTES,
    AgentAnnounced,
    AgentOrders,
    AgentReport,
    Burst,
    BurstAnswer,
    HealthAnswer,
    HealthReport,
    JobAnnounced,
)
from headrace.wire.estate import (
    Agents,
    ControllerView,
    DecisionKind,
    Decisions,
    EntryKind,
    Estate,
    Jobs,
    JobView,
    Ledger,
)

VERSION = version("headrace")

MOST_ROWS = 1000
"""Most entries of the ledger in one answer."""

LEVELS: tuple[str, ...] = get_args(Level)
"""Levels of health, the best first."""


def _jobs(asked: Asked) -> Jobs:
    best = LEVELS.index(asked.query.get("level", LEVELS[0]))
    found = views.jobs(asked.parts.steward).jobs
    return Jobs(jobs=tuple(job for job in found if LEVELS.index(job.level) >= best))


def _query(asked: Asked) -> Query:
    given = asked.query
    try:
        return Query(
            job=given.get("job"),
            tier=given.get("tier"),
            kind=given.get("kind"),
            open_only=given.get("open") == "true",
            since=float(given["since"]) if "since" in given else None,
            before=int(given["before"]) if "before" in given else None,
            limit=min(int(given.get("limit", "100")), MOST_ROWS),
        )
    except ValueError as error:
        raise CallerError(
            f"the query makes no sense: {error}; since is seconds since 1970, before and limit "
            "are whole numbers, and limit is 1 or more"
        ) from error


def _ledger(asked: Asked) -> Ledger:
    at = asked.parts.steward.wall()
    rows, before = asked.parts.steward.books.ledger.rows.find(_query(asked))
    return Ledger(entries=tuple(views.with_timer(row, at) for row in rows), before=before)


def _decisions(asked: Asked) -> Decisions:
    rows, before = asked.parts.steward.books.decisions.rows.find(_query(asked))
    return Decisions(decisions=tuple(rows), before=before)


def _controller(steward: Steward) -> ControllerView:
    return ControllerView(
        boot=steward.boot,
        version=VERSION,
        uptime_s=steward.clock.now() - steward.began,
        settling=steward.settles_until is not None,
        journal=steward.journal.view(),
        reports=steward.reports,
        refused=steward.refused,
    )


def estate(parts: Parts) -> Estate:
    """Return all of it."""
    steward = parts.steward
    return Estate(
        at=steward.wall(),
        controller=_controller(steward),
        tiers=views.tiers(steward),
        jobs=views.jobs(steward).jobs,
        agents=views.agents(steward, with_jobs=False).agents,
        hotspots=parts.hotspots.views().hotspots,
    )


_ROWS = dict.fromkeys(("job", "tier", "since", "before", "limit"), ANYTHING)

RESERVATION_CALLS: tuple[Call, ...] = (
    Call(
        method="POST",
        path="/v1/jobs/{job}/health",
        summary="Report one host's prefetch health at the end of one iteration.",
        act=lambda asked: asked.parts.steward.take_health(asked.names["job"], asked.message),
        answers=HealthAnswer,
        takes=HealthReport,
        most_bytes=MOST_REPORT_BYTES,
    ),
    Call(
        method="POST",
        path="/v1/agents/{agent}/report",
        summary="Report what jobs did at an agent, and learn what to hold them to.",
        act=lambda asked: asked.parts.steward.take_agent_report(
            asked.names["agent"], asked.message
        ),
        answers=AgentOrders,
        takes=AgentReport,
    ),
    Call(
        method="PUT",
        path="/v1/jobs/{job}",
        summary="Announce a job; each of its hosts does, before its first step.",
        act=lambda asked: asked.parts.steward.announce_job(asked.names["job"], asked.message),
        answers=HealthAnswer,
        takes=JobAnnounced,
    ),
    Call(
        method="DELETE",
        path="/v1/jobs/{job}",
        summary="End a job, or one host of it; a job ends with its last host.",
        act=lambda asked: asked.parts.steward.end_job(asked.names["job"], asked.query.get("host")),
        queries={"host": ANYTHING},
    ),
    Call(
        method="PUT",
        path="/v1/jobs/{job}/bursts/{burst}",
        summary="Announce that a checkpoint will be moved, or renew that.",
        act=lambda asked: asked.parts.steward.announce_burst(
            asked.names["job"], asked.names["burst"], asked.message
        ),
        answers=BurstAnswer,
        takes=Burst,
    ),
    Call(
        method="DELETE",
        path="/v1/jobs/{job}/bursts/{burst}",
        summary="Tell that a checkpoint was moved, or given up.",
        act=lambda asked: asked.parts.steward.end_burst(asked.names["job"], asked.names["burst"]),
    ),
    Call(
        method="PUT",
        path="/v1/agents/{agent}",
        summary="Announce an agent, its tiers and what it enforces.",
        act=lambda asked: asked.parts.steward.announce_agent(asked.names["agent"], asked.message),
        answers=AgentOrders,
        takes=AgentAnnounced,
    ),
    Call(
        method="DELETE",
        path="/v1/agents/{agent}",
        summary="Take an agent out.",
        act=lambda asked: asked.parts.steward.end_agent(asked.names["agent"]),
    ),
    Call(
        method="GET",
        path="/v1/jobs",
        summary="List the jobs: health, quotas, loans; of one level of health and worse.",
        act=_jobs,
        answers=Jobs,
        queries={"level": LEVELS},
    ),
    Call(
        method="GET",
        path="/v1/jobs/{job}",
        summary="Show one job.",
        act=lambda asked: views.job(asked.parts.steward, asked.names["job"]),
        answers=JobView,
    ),
    Call(
        method="GET",
        path="/v1/agents",
        summary="List the agents: tiers, CPU, what each job does and is held to.",
        act=lambda asked: views.agents(asked.parts.steward),
        answers=Agents,
    ),
    Call(
        method="GET",
        path="/v1/ledger",
        summary="List loans and refusals, newest first.",
        act=_ledger,
        answers=Ledger,
        queries={**_ROWS, "kind": get_args(EntryKind), "open": ("true", "false")},
    ),
    Call(
        method="GET",
        path="/v1/decisions",
        summary="List what was decided and why, newest first.",
        act=_decisions,
        answers=Decisions,
        queries={**_ROWS, "kind": get_args(DecisionKind)},
    ),
    Call(
        method="GET",
        path="/v1/estate",
        summary="Show tiers, jobs, agents, hotspots and the controller at one moment.",
        act=lambda asked: estate(asked.parts),
        answers=Estate,
    ),
)
"""Most frequent first, for they are tried in this order."""
