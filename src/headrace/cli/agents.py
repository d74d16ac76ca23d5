"""``headrace agents``: the agents of an estate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from headrace.cli.asking import Asker, controller_options
from headrace.cli.columns import Column, heading, line, name_column, print_line, width_of
from headrace.cli.outputs import json_option
from headrace.report.document import write_json
from headrace.report.units import bytes_, percent
from headrace.wire.estate import Agents, AgentTierView, AgentView


@dataclass(frozen=True, slots=True)
class _Row:
    """A tier of one agent."""

    agent: AgentView | None
    """None below the first row of an agent."""

    tier: AgentTierView | None


@click.command()
@controller_options
@json_option("Write the same as JSON to a file, - for stdout.")
def command(
    *,
    controller: str | None,
    token_file: Path | None,
    ca_file: str | None,
    json_file: str | None,
) -> int:
    """List agents: CPU, what they do, and what each of their tiers can give and gives.

    JSON holds besides what each job was ordered, holds to and uses at each agent. Exits with 1
    if an agent has fallen silent.

    \b
    Examples:
      headrace agents --controller http://controller:7410
      headrace agents --json - | jq '.agents[] | {agent, cpu_share}'
    """  # noqa: D301 - click reads the lone \b
    with Asker(controller, token_file, ca_file) as asker:
        found = asker.get("/v1/agents", Agents)
    if json_file:
        write_json(json_file, found)
    if json_file != "-":
        _print(found)
    return 1 if any(agent.silent for agent in found.agents) else 0


def _print(found: Agents) -> None:
    console = Console()
    if not found.agents:
        console.print("no agents")
        return
    columns = _columns(console.width)
    print_line(console, heading(columns))
    for agent in found.agents:
        for place, tier in enumerate(agent.tiers or [None]):
            print_line(console, line(columns, _Row(agent if place == 0 else None, tier)))


def _columns(width: int) -> list[Column[_Row]]:
    columns: list[Column[_Row]] = [
        Column(name="STATE", width=12, cell=_of_agent(_state)),
        Column(name="CPU", width=5, right=True, cell=_of_agent(lambda one: percent(one.cpu_share))),
        Column(name="WORKERS", width=7, right=True, cell=_of_agent(lambda one: str(one.workers))),
        Column(name="JOBS", width=5, right=True, cell=_of_agent(lambda one: str(len(one.jobs)))),
        Column(name="QUEUE", width=6, right=True, cell=_of_agent(lambda one: f"{one.waiting:,}")),
        Column(name="CACHED", width=6, right=True, cell=_of_agent(_cached)),
        Column(name="TIER", width=6, cell=lambda row: row.tier.tier if row.tier else ""),
        Column(name="GIVES/s", width=7, right=True, cell=_gives),
        Column(name="USED/s", width=7, right=True, cell=_used),
    ]
    room = width - width_of(columns)
    return [name_column("AGENT", room, _of_agent(lambda one: one.agent)), *columns]


def _of_agent(cell: Callable[[AgentView], str]) -> Callable[[_Row], str]:
    return lambda row: "" if row.agent is None else cell(row.agent)


def _cached(agent: AgentView) -> str:
    return "" if agent.cache_hit_share is None else percent(agent.cache_hit_share)


def _gives(row: _Row) -> str:
    return bytes_(row.tier.bytes_per_s) if row.tier else ""


def _used(row: _Row) -> str:
    return bytes_(row.tier.used_bytes_per_s) if row.tier else ""


def _state(agent: AgentView) -> str:
    if agent.silent:
        return f"silent {agent.age_s:.0f} s"
    return "decoding" if agent.transforming else "raw only"
