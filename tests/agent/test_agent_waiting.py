"""What an agent says of the time that samples wait for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_for_tests import Job, make_dataset

from headrace.agent.local import LocalAgent
from headrace.agent.usage import Effort
from headrace.transform import ops
from headrace.transform.ops.user import UserOp
from headrace.transform.pipeline import Pipeline

ONE_WORKER = ("--workers", "1", "--cpu-threshold", "1", "--allow-op", "ops_for_tests:*")


def test_waiting_for_a_worker_that_transforms_is_told_apart_from_waiting_for_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    dataset = make_dataset(tmp_path / "photos", count=8)
    slow = Pipeline((ops.DecodeImage(), UserOp(path="ops_for_tests:take_time", fields=("image",))))
    with LocalAgent([dataset.parent], options=ONE_WORKER) as agent:
        job = Job(agent, dataset, slow)
        job.register()
        headers = [header for header, _ in job.fetch(0, 1, 2, 3, 4, 6).values()]
    waited = [header for header in headers if not header.ready]
    last = max(waited, key=lambda header: header.queued_s)
    assert last.queued_s > 0.1
    for header in waited:
        assert 0.8 * header.queued_s <= header.cores_s <= header.queued_s
        assert header.after_s is not None and header.after_s >= header.queued_s


def test_workers_are_judged_by_what_they_did_since_a_sample_was_asked_for() -> None:
    before = Effort(read_s=5.0, transform_s=1.0)
    assert before.transforming_since(before) == 0.0
    assert before.plus(1.0, 3.0).transforming_since(before) == 0.75
