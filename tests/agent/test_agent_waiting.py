"""What an agent says of the time that samples wait for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from client_for_tests import Job, make_dataset

from headrace.agent.coretime import SCHEDSTAT, CoreTime
from headrace.agent.local import LocalAgent
from headrace.agent.usage import Effort
from headrace.transform import ops
from headrace.transform.ops.user import UserOp
from headrace.transform.pipeline import Pipeline
from waiting import eventually

ONE_WORKER = ("--workers", "1", "--cpu-threshold", "1", "--allow-op", "ops_for_tests:*")


def test_waiting_for_a_worker_on_a_core_is_told_apart_from_waiting_for_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    dataset = make_dataset(tmp_path / "photos", count=8)
    slow = Pipeline((ops.DecodeImage(), UserOp(path="ops_for_tests:take_time", fields=("image",))))
    with LocalAgent([dataset.parent], options=ONE_WORKER) as agent:
        job = Job(agent, dataset, slow)
        job.register()
        headers = [header for header, _ in job.fetch(0, 1, 2, 3, 4, 6, wait_s=60).values()]
    waited = [header for header in headers if not header.ready]
    last = max(waited, key=lambda header: header.queued_s)
    assert last.queued_s > 0.1
    for header in waited:
        assert 0.8 * header.queued_s <= header.cores_s <= header.queued_s
        assert header.after_s is not None and header.after_s >= header.queued_s


def test_workers_are_judged_by_what_they_did_since_a_sample_was_asked_for() -> None:
    before = Effort(whole_s=6.0, cores_s=1.0)
    assert before.on_cores_since(before) == 0.0
    assert before.plus(4.0, 3.0).on_cores_since(before) == 0.75
    assert before.plus(4.0, 9.0).on_cores_since(before) == 1.0


@pytest.mark.parametrize("file", [SCHEDSTAT, Path("/proc/nothing")])
def test_time_on_cores_is_told_apart_from_other_waits(file: Path) -> None:
    cores = CoreTime(file)

    def of_a_sleep() -> float:
        begin_s = cores.seconds()
        time.sleep(0.3)
        return cores.seconds() - begin_s

    eventually(lambda: of_a_sleep() < 0.1)  # where the machine is busy, it is waited for a core
    begin_s, until_s = cores.seconds(), time.thread_time() + 0.1
    while time.thread_time() < until_s:
        pass
    assert cores.seconds() - begin_s >= 0.08


def test_waiting_in_line_for_a_core_is_waiting_for_cores(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("2000000000 500000000 7\n")
    assert CoreTime(file).seconds() == 2.5
