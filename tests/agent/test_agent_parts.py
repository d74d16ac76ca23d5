"""An agent makes parts of clips on several workers at once: what it sends is those of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from client_for_tests import Job

from headrace.agent.local import LocalAgent
from headrace.core.digest import record_digest
from headrace.core.errors import RefusedError
from headrace.core.parts import SamplePart, parts_of
from headrace.core.record import Record
from headrace.prepare.job import open_job
from headrace.transform.partial import divided_by, joined
from headrace.wire.frames import fresh_memory, read_frame, record_of
from longclips import PARTS, PIPELINE, long_clips
from waiting import eventually

CUT = 4
"""Ops that agents run: clips are decoded, framed and flipped."""

CUTS = {"image": CUT, "video": CUT}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_clips(tmp_path_factory.mktemp("parts") / "data", pictures=4)


@pytest.fixture(scope="module")
def agent(dataset: Path) -> Iterator[LocalAgent]:
    options = ["--workers", "2", "--memory", "64MiB", "--cpu-threshold", "1"]
    with LocalAgent([dataset], options=options) as agent:
        yield agent


@pytest.fixture
def job(agent: LocalAgent, dataset: Path) -> Job:
    job = Job(agent, dataset, PIPELINE, CUT)
    job.register(cuts=CUTS)
    return job


def clip_of(job: Job) -> int:
    return max(sample for sample in range(6) if open_job(job.spec).kind(sample) == "video")


def fetch_parts(job: Job, sample: int, parts: tuple[SamplePart, ...]) -> dict[int, Record]:
    job.send(*(sample for _ in parts), parts=parts)
    answer, found = job.connection.receive(), {}
    while (frame := read_frame(answer, fresh_memory))[0].kind != "end":
        header, buffers = frame
        assert (header.kind, header.cut) == ("tensor", CUT)
        found[header.part.number] = record_of(header, buffers)
    return found


def test_parts_are_sent_one_by_one_and_are_the_whole_together(job: Job) -> None:
    sample = clip_of(job)
    decoder = divided_by(job.program, CUT)
    assert decoder is not None
    found = fetch_parts(job, sample, parts_of(PARTS))
    assert sorted(found) == [0, 1, 2]
    assert [len(found[number]["video"]) for number in range(3)] == [4, 3, 5]  # type: ignore[arg-type]
    together = joined([found[number] for number in range(3)], decoder)
    assert record_digest(together) == record_digest(job.expected(sample))


def test_parts_are_foreseen_and_lie_ready(job: Job) -> None:
    job.spec = msgspec.structs.replace(job.spec, run="another")
    job.path = f"/v1/jobs/{job.spec.id}"
    job.register(cuts=CUTS)
    eventually(lambda: lies_ready(job))
    sample = clip_of(job)
    job.send(*[sample] * PARTS, parts=parts_of(PARTS))
    answer = job.connection.receive()
    headers = [read_frame(answer, fresh_memory)[0] for _ in range(PARTS)]
    assert any(header.ready for header in headers)


def lies_ready(job: Job) -> bool:
    found = job.statistics()
    return found["prepared"] >= 30 and found["running"] == 0  # type: ignore[operator]


def test_a_part_that_takes_its_worker_down_leaves_the_others_alone(
    job: Job, agent: LocalAgent
) -> None:
    sample = clip_of(job)
    job.send(*[sample] * PARTS, parts=parts_of(PARTS))
    for worker in psutil.Process(agent.pid).children()[:1]:
        worker.kill()
    answer = job.connection.receive()
    numbers = {read_frame(answer, fresh_memory)[0].part.number for _ in range(PARTS)}
    assert numbers == set(range(PARTS))


def test_what_is_no_part_is_refused(job: Job) -> None:
    for wrong in ((SamplePart(2, 2),), (SamplePart(0, 99),), parts_of(2)):
        job.send(0, parts=wrong)
        with pytest.raises(RefusedError, match="part"):
            job.connection.receive()


def test_a_client_that_wants_raw_bytes_is_told_that_a_part_has_none(job: Job) -> None:
    job.send(clip_of(job), parts=(SamplePart(1, 2),), want="raw")
    header, _ = read_frame(job.connection.receive(), fresh_memory)
    assert (header.kind, header.code, header.part) == ("missing", "asked", SamplePart(1, 2))
