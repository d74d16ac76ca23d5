"""An agent that nobody asks for anything costs its host next to nothing."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
from client_for_tests import Job, make_dataset

from headrace.agent.local import LocalAgent
from waiting import eventually

WATCHED_S = 2.0
MOST_WAKES_PER_S = 8
"""Ten looks at the CPU a second, or ten ticks of a server, would be more."""


def wakes_per_s(processes: list[psutil.Process]) -> float:
    """Return how often the processes were given a CPU after waiting, all together."""

    def wakes() -> int:
        return sum(process.num_ctx_switches().voluntary for process in processes)

    before = wakes()
    time.sleep(WATCHED_S)
    return (wakes() - before) / WATCHED_S


def test_an_agent_rests_without_jobs_and_between_the_requests_of_one(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "served", 6)
    options = ["--workers", "2", "--cpu-threshold", "1", "--unix", str(tmp_path / "socket")]
    with LocalAgent([tmp_path], options=options) as agent:
        processes = [*psutil.Process(agent.pid).children(), psutil.Process(agent.pid)]
        eventually(lambda: wakes_per_s(processes) < MOST_WAKES_PER_S, within_s=40)
        job = Job(agent, dataset)
        job.register()
        assert set(job.fetch(0)) == {0}
        eventually(lambda: wakes_per_s(processes) < MOST_WAKES_PER_S, within_s=40)
        assert set(job.fetch(1)) == {1}
