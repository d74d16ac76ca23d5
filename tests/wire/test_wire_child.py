"""What becomes of a daemon that is not ready in time: it is told with how busy the machine is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.agent.local import LocalAgent
from headrace.core.errors import AgentUnavailableError
from headrace.core.load import busy_machine
from headrace.wire import child


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the machine a busy one; return what is said of it."""
    monkeypatch.setattr(os, "getloadavg", lambda: (17.26, 3.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return r"this machine is busy \(load average 17\.3 with 2 CPUs\)"


def test_a_machine_with_cpus_to_spare_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0, 9.0, 9.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert busy_machine() == ""


def test_an_agent_that_is_not_ready_in_time_is_told_of_with_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    monkeypatch.setattr(child, "START_TIMEOUT_S", 0.01)
    with pytest.raises(AgentUnavailableError, match=rf"not ready 0\.01 s after its start; {busy}"):
        LocalAgent([tmp_path]).start()
