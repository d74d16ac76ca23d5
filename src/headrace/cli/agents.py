"""``headrace agents``: the agents of an estate."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from headrace.cli.asking import Asker, controller_options
from headrace.cli.gauges import rate
from headrace.report.blocks import Table
from headrace.report.console import print_table
from headrace.report.document import write_json
from headrace.report.units import percent
from headrace.wire.estate import Agents, AgentTierView, AgentView


@click.command()
@controller_options
@click.option("--json", "json_file", help="Write the same as JSON to a file, - for stdout.")
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
    print_table(
        console,
        Table(
            title="",
            columns=("agent", "state", "CPU", "workers", "jobs", "queue", "tier", "gives", "used"),
            rows=tuple(row for agent in found.agents for row in _rows(agent)),
        ),
    )


def _rows(agent: AgentView) -> list[tuple[str, ...]]:
    """Return a line for each of the agent's tiers; what is about the agent is in the first."""
    about = (
        agent.agent,
        _state(agent),
        percent(agent.cpu_share),
        str(agent.workers),
        str(len(agent.jobs)),
        f"{agent.waiting:,}",
    )
    first, *others = [_amounts(tier) for tier in agent.tiers] or [("", "", "")]
    return [(*about, *first), *(("",) * len(about) + other for other in others)]


def _amounts(tier: AgentTierView) -> tuple[str, str, str]:
    return (tier.tier, rate(tier.bytes_per_s), rate(tier.used_bytes_per_s))


def _state(agent: AgentView) -> str:
    if agent.silent:
        return f"silent {agent.age_s:.0f} s"
    return "decoding" if agent.transforming else "raw only"
