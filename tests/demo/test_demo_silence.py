"""Trainers that say nothing are given up, and the machine's load is told with it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

import pytest
from demo_made_up import segment

from headrace.core.errors import DeadlineError
from headrace.demo import children
from headrace.demo.children import listen, start_here, trainers


def start_silent(_: Sequence[str]) -> subprocess.Popen[bytes]:
    return start_here(["sleep", "30"])


@pytest.mark.parametrize(
    ("load", "said"), [(1e6, r"; this machine is busy \(load average 1000000\.0"), (0.0, "--debug")]
)
def test_silent_trainers_are_given_up_with_the_load_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, load: float, said: str
) -> None:
    monkeypatch.setattr(children, "SILENCE_LIMIT_S", 0.01)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    plan = segment("local", first_step=0, begin_s=0.0, wait_s=0.0, cpu_s=0.0).plan
    with (
        trainers([plan], start_silent) as running,
        pytest.raises(DeadlineError, match=rf"said anything for 0\.01 s.*{said}"),
    ):
        list(listen(running, meanwhile=lambda: None))
