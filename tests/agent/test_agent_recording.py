"""What an agent records: reads, transforms, and answers that a rank's requests are found by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace import Loader
from headrace.agent.agentlog import MOST_EACH, MadeRow, MadeRows
from headrace.agent.local import LocalAgent
from headrace.analysis.analyser import Analyser
from headrace.analysis.figures import Requests
from headrace.policy.lookahead_events import Visit
from headrace.trace.opening import open_trace


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    lines = (json.dumps({"text": f"sample {number} " * 20}) for number in range(24))
    (folder / "all.jsonl").write_text("\n".join(lines))
    return folder


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for batch in open_trace([folder]).batches() for row in batch.to_pylist()]


def requests_of(job: str, *folders: Path) -> Requests:
    trace, analyser = open_trace(folders), Analyser(job=job)
    for batch in trace.batches():
        analyser.add(batch)
    (figures,) = analyser.result(format_name=trace.format, notes=trace.notes).jobs
    assert figures.requests is not None
    return figures.requests


def test_answers_to_a_rank_and_its_requests_are_found_together(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_TRACE", str(tmp_path / "traces"))
    options = ("--workers", "1", "--cpu-threshold", "1")
    with LocalAgent([texts], name="store-7", options=options) as agent:
        monkeypatch.setenv("HEADRACE_TRACE", "off")
        with Loader(
            texts,
            batch_size=3,
            agents=agent.address,
            token=agent.token,
            patience_s=20,
            check_every=0,
            trace=tmp_path / "rank",
        ) as loader:
            job, steps = loader.job.spec.id, len(list(loader))
    served = [row for row in rows(tmp_path / "traces" / "agent-store-7") if row["name"] == "serve"]
    answers = {row["step"]: row for row in served}
    fetches = [row for row in rows(tmp_path / "rank") if row["name"] == "fetch"]
    assert {fetch["step"] for fetch in fetches} >= set(range(steps))
    for fetch in fetches:
        answer = answers[fetch["step"]]
        assert (fetch["replica"], answer["host"]) == ("store-7", "store-7")
        assert (fetch["job"], fetch["rank"]) == (answer["job"], answer["rank"]) == (job, 0)
        assert dict(answer["counts"])["samples"] == 3
        assert fetch["begin_ns"] < answer["begin_ns"] + answer["duration_ns"]
    clocks = open_trace([tmp_path / "rank", tmp_path / "traces"]).clocks()
    assert clocks.unknown == ()
    offset = clocks.offsets["store-7"]
    assert abs(offset.ns) <= offset.uncertainty_ns + 1e6, "both are this machine's clock"
    made = [row for row in rows(tmp_path / "traces") if row["name"] == "read"]
    assert {row["file"] for row in made} == {str(texts / "all.jsonl")}
    assert all(row["job"] == job and row["bytes"] > 0 and row["phase"] is None for row in made)
    requests = requests_of(job, tmp_path / "rank", tmp_path / "traces")
    own = [row for row in rows(tmp_path / "rank") if row["name"] == "read"]
    assert requests.read_bytes is not None and requests.fetched_bytes is not None
    assert requests.read_bytes.total == sum(row["bytes"] for row in [*made, *own])
    assert requests.fetched_bytes.total == sum(row["bytes"] for row in fetches)


class _Job:
    def start(self, sample: int) -> tuple[str, int]:
        return f"/data/{sample}", 0


def made(count: int, *, has_cache: bool = True) -> pa.RecordBatch:
    return MadeRows().events(
        [
            MadeRow(
                _Job(),  # type: ignore[arg-type]
                Visit(job=f"job-{number % 2}", step=3, sample=number, epoch=0),
                ended=10**18 + number,
                nbytes=100,
                cached=100 * (number % 4 == 1) if has_cache else None,
                read_s=0.001,
                transform_s=0.002,
            )
            for number in range(count)
        ]
    )


def test_few_samples_are_recorded_one_by_one_and_many_in_sums() -> None:
    few = made(3).to_pylist()
    assert [row["file"] for row in few if row["name"] == "read"] == [
        "/data/0",
        "/data/1",
        "/data/2",
    ]
    assert [row["duration_ns"] for row in few if row["name"] == "transform"] == [2_000_000] * 3
    many = {(row["job"], row["name"]): row for row in made(2 * MOST_EACH).to_pylist()}
    assert set(many) == {(f"job-{n}", name) for n in (0, 1) for name in ("read", "transform")}
    read = many["job-1", "read"]
    assert (read["count"], read["bytes"], read["file"]) == (MOST_EACH, 100 * MOST_EACH, None)
    assert read["duration_ns"] == pytest.approx(MOST_EACH * 1_000_000)


@pytest.mark.parametrize("count", [4, 2 * MOST_EACH])
def test_what_came_out_of_the_cache_is_told_where_there_is_one(count: int) -> None:
    def told(has_cache: bool) -> list[dict[str, int] | None]:
        rows = made(count, has_cache=has_cache).to_pylist()
        return [row["counts"] and dict(row["counts"]) for row in rows if row["name"] == "read"]

    assert sum(counts["cached_bytes"] for counts in told(True) if counts) == 100 * count // 4
    assert all(counts for counts in told(True))
    assert not any(told(False))
