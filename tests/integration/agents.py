"""Asks running agents what they do."""

from __future__ import annotations

import time
import urllib.request
from typing import Any

import msgspec

from headrace.agent.local import LocalAgent


def wait_until_proven(agent: LocalAgent, *, jobs: int = 1) -> None:
    """Wait until the agent knows its jobs and transforms; it takes a while on a busy machine."""
    deadline = time.monotonic() + 60
    while True:
        found = agent_statistics(agent)
        if found["jobs"] >= jobs and not found["raw_only_jobs"]:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def agent_statistics(agent: LocalAgent) -> dict[str, Any]:
    """Ask a running agent what it did."""
    request = urllib.request.Request(
        f"{agent.address}/v1/statistics", headers={"Authorization": f"Bearer {agent.token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = msgspec.json.decode(answer.read())
        return found
