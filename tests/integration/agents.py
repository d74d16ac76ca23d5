"""Asks running agents what they do."""

from __future__ import annotations

import time
import urllib.request
from typing import Any

import msgspec

from headrace.agent.local import LocalAgent


def wait_until_proven(agent: LocalAgent) -> None:
    """Wait until the agent may transform; its workers may start slowly on a busy machine."""
    deadline = time.monotonic() + 40
    while agent_statistics(agent)["raw_only_jobs"]:
        assert time.monotonic() < deadline, agent_statistics(agent)
        time.sleep(0.05)


def agent_statistics(agent: LocalAgent) -> dict[str, Any]:
    """Ask a running agent what it did."""
    request = urllib.request.Request(
        f"{agent.address}/v1/statistics", headers={"Authorization": f"Bearer {agent.token}"}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        found: dict[str, Any] = msgspec.json.decode(answer.read())
        return found
