"""One picture of an estate for a terminal of any size: pure, from one answer of the controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from headrace.cli.columns import Column, heading, line, name_column, width_of
from headrace.cli.gauges import STYLES, amount, felt, gauge, needs_word, rate, short_name, silence
from headrace.report.units import bytes_, counted, seconds
from headrace.wire.estate import AgentTierView, AgentView, Estate, JobView, TierView
from headrace.wire.hotspots import HotspotView

_FIXED_LINES = 5
"""Lines beside those of tiers, jobs and agents: header, two headings, a blank one, the footer."""

_MOST_HOTSPOTS = 3
"""Announced hotspots that are shown; `headrace leases` lists all."""

_LEAST_NAME = 10
"""Letters of a name that columns worth less than it make room for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """The room there is."""

    width: int
    height: int


def picture(estate: Estate, screen: Screen, *, controller: str, footer: str = "") -> RenderableType:
    """Return what ``headrace top`` shows: the worst jobs first, as many as there is room for."""
    above = [
        *(_tier(tier) for tier in estate.tiers),
        *(_hotspot(view) for view in estate.hotspots[:_MOST_HOTSPOTS]),
    ]
    room = max(screen.height - _FIXED_LINES - len(above), 4)
    agents = sorted(estate.agents, key=lambda agent: (not agent.silent, -agent.cpu_share))
    jobs = _job_lines(estate.jobs, screen.width, room - min(len(agents), room // 3))
    return Group(
        _header(estate, controller, screen.width),
        *above,
        *jobs,
        Text(),
        *_agent_lines(agents, screen.width, room + 1 - len(jobs)),
        Text(footer, style="dim", no_wrap=True, overflow="ellipsis"),
    )


def _header(estate: Estate, controller: str, width: int) -> Text:
    said = estate.controller
    facts = f"up {seconds(round(said.uptime_s))}  "
    facts += f"{counted(len(estate.jobs), 'job')}  {counted(len(estate.agents), 'agent')}"
    warnings = [
        *(["settling"] if said.settling else []),
        *(["journal not written"] if said.journal.degraded else []),
    ]
    room = width - len(facts) - sum(len(warning) + 2 for warning in warnings) - 15
    text = Text("headrace top ", style="bold", no_wrap=True, overflow="crop")
    text.append(short_name(controller, max(room, 8)), style="not bold dim")
    text.append(f"  {facts}", style="not bold")
    for warning in warnings:
        text.append(f"  {warning}", style="yellow")
    return text


def _tier(tier: TierView) -> Text:
    share = tier.granted_bytes_per_s / tier.bytes_per_s if tier.bytes_per_s else 0.0
    text = Text(f"{short_name(tier.tier, 6):6} ", no_wrap=True, overflow="ellipsis")
    text.append_text(gauge(share, width=7, style="red" if share > 1.001 else "cyan"))
    text.append(f" given {bytes_(tier.granted_bytes_per_s)} of {rate(tier.bytes_per_s)}")
    text.append(f"  lent {bytes_(tier.lent_bytes_per_s)} of {bytes_(tier.pool_bytes_per_s)}")
    text.append(f"  used {bytes_(tier.used_bytes_per_s)}")
    return text


def _hotspot(view: HotspotView) -> Text:
    text = Text(f"{'hot':6} ", no_wrap=True, overflow="ellipsis")
    text.append_text(gauge(view.ready_share, width=7, style="magenta"))
    named = view.job or view.url.rstrip("/").rpartition("/")[2]
    text.append(f" {view.state} {short_name(named, 20)}")
    text.append(f"  lease {seconds(round(max(view.expires_in_s, 0.0)))}  {view.reason}")
    return text


def _job_lines(jobs: Sequence[JobView], width: int, room: int) -> list[Text]:
    """Return a heading and the jobs; one in need has its reason below it."""
    if not jobs:
        return [_note("no jobs have announced themselves")]
    columns = _job_columns(width)
    lines = [heading(columns)]
    waiting = sorted(jobs, key=lambda job: (job.score, job.job))
    while waiting and len(lines) + _height(waiting[0]) + (len(waiting) > 1) <= room + 1:
        job = waiting.pop(0)
        lines.append(line(columns, job))
        if needs_word(job):
            lines.append(_note(f"  ↳ {job.reason}"))
    return [*lines, *_left_out(len(waiting), "in better health" if len(lines) > 1 else "")]


def _height(job: JobView) -> int:
    return 2 if needs_word(job) else 1


def _job_columns(width: int) -> list[Column[JobView]]:
    columns: list[Column[JobView]] = [
        Column(name="HEALTH", width=9, cell=_health),
        Column(name="DIAGNOSIS", width=15, cell=_mode),
        Column(name="QUEUE", width=5, right=True, cell=_queue),
        Column(name="WAIT", width=7, right=True, cell=lambda job: felt(job.wait_s)),
        Column(name="ASKED/s", width=7, right=True, cell=lambda job: amount(_asked(job))),
        Column(name="GIVEN/s", width=7, right=True, cell=lambda job: amount(_granted(job))),
        Column(name="LOAN", width=12, right=True, cell=_loan),
    ]
    extra: list[Column[JobView]] = [
        Column(name="USED/s", width=7, right=True, cell=lambda job: amount(_used(job))),
        Column(name="STEP", width=9, right=True, cell=lambda job: f"{job.step:,}"),
        Column(name="HOSTS", width=9, right=True, cell=_hosts),
        Column(name="WEIGHT", width=6, right=True, cell=lambda job: f"{job.weight:g}"),
    ]
    while extra and width_of(columns) + extra[0].width + 2 + 2 * _LEAST_NAME <= width:
        columns.append(extra.pop(0))
    return [
        name_column("JOB", width - width_of(columns), lambda job: job.title or job.job),
        *columns,
    ]


def _health(job: JobView) -> Text:
    if not job.hosts_reporting:
        return Text("–", style="dim")
    bar = gauge(job.score / 100, width=5, style=STYLES.get(job.level, ""))
    return bar + Text(f"{job.score:4.0f}")


def _mode(job: JobView) -> Text:
    if silence(job):
        return Text(silence(job), style="red")
    if job.mode == "none":
        return Text("reordering" if job.reordering else "", style="dim")
    return Text(job.mode, style=STYLES.get(job.level, ""))


def _queue(job: JobView) -> str:
    return f"{job.queue_depth:.0f}/{job.queue_capacity:.0f}"


def _hosts(job: JobView) -> str:
    return f"{job.hosts_reporting}/{job.hosts}"


def _loan(job: JobView) -> Text:
    """Return what is lent, and the time until the first of it is reclaimed."""
    if not job.loans:
        return Text("–", style="dim")
    lent = sum(loan.bytes_per_s for loan in job.loans)
    ends = [loan.expires_in_s for loan in job.loans if loan.expires_in_s is not None]
    timer = f" {min(ends):.0f}s" if ends else ""
    return Text(f"{bytes_(lent)}{timer}", style="magenta")


def _asked(job: JobView) -> float:
    return sum(share.asked_bytes_per_s for share in job.tiers.values())


def _granted(job: JobView) -> float:
    return sum(share.granted_bytes_per_s for share in job.tiers.values())


def _used(job: JobView) -> float:
    return sum(share.used_bytes_per_s for share in job.tiers.values())


def _agent_lines(agents: Sequence[AgentView], width: int, room: int) -> list[Text]:
    if not agents:
        return [_note("no agents have announced themselves")]
    columns = _agent_columns(width)
    fits = len(agents) if len(agents) <= room else max(room - 1, 0)
    shown = [line(columns, agent) for agent in agents[:fits]]
    return [heading(columns), *shown, *_left_out(len(agents) - fits, "")]


def _agent_columns(width: int) -> list[Column[AgentView]]:
    columns: list[Column[AgentView]] = [
        Column(name="CPU", width=10, cell=_cpu),
        Column(name="STATE", width=8, cell=_state),
        Column(name="QUEUE", width=5, right=True, cell=lambda agent: f"{agent.waiting:,}"),
        Column(name="READS/s", width=max(width - 70, 34), cell=_reads),
        Column(name="HEARD", width=6, right=True, cell=lambda agent: _ago(agent.age_s)),
    ]
    return [name_column("AGENT", width - width_of(columns), lambda agent: agent.agent), *columns]


def _cpu(agent: AgentView) -> Text:
    style = "red" if agent.cpu_share > 0.8 else "green"
    return gauge(agent.cpu_share, width=5, style=style) + Text(f" {agent.cpu_share:4.0%}")


def _state(agent: AgentView) -> Text:
    if agent.silent:
        return Text("silent", style="red")
    return Text("decoding", style="green") if agent.transforming else Text("raw", style="yellow")


def _reads(agent: AgentView) -> str:
    return ", ".join(
        f"{tier.tier} {bytes_(tier.used_bytes_per_s)} {_part(tier)}" for tier in agent.tiers
    )


def _part(tier: AgentTierView) -> str:
    return f"{tier.used_bytes_per_s / tier.bytes_per_s:.0%}" if tier.bytes_per_s else ""


def _ago(age_s: float) -> str:
    return f"{age_s:.0f} s" if age_s < 600 else seconds(age_s)


def _note(text: str) -> Text:
    return Text(text, style="dim", no_wrap=True, overflow="ellipsis")


def _left_out(count: int, what: str) -> list[Text]:
    return [_note(f"… {count:,} more {what}".rstrip())] if count > 0 else []
