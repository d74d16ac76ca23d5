"""headrace analyze: tables, JSON, page, and what it says of calls and traces that are wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.analysis.figures import Analysis
from headrace.cli.main import run
from headrace.trace.events import Event, Kind, batch_of

S = 1_000_000_000


def event(kind: Kind, begin_s: float, duration_s: float, **more: object) -> Event:
    return Event(kind=kind, begin_ns=round(begin_s * S), duration_ns=round(duration_s * S), **more)  # type: ignore[arg-type]


def events(job: str = "mm-7") -> Iterator[Event]:
    """Four ranks on two hosts; every second step waits a second for a transformation."""
    for rank in range(4):
        base = {"job": job, "host": f"trainer-{rank // 2}", "rank": rank}
        yield event(Kind.CHECKPOINT_READ, 0, 5 + rank, bytes=10**9, phase="initialisation", **base)
        for step in range(20):
            at, wait = 10 + 2 * step, step % 2
            in_step = base | {"step": step, "phase": "iteration"}
            yield event(Kind.STEP, at, 2, **in_step)
            yield event(Kind.WAIT, at, wait, **in_step)
            yield event(Kind.LOAD, at - 2, 2 + wait, counts={"samples": 32}, **in_step)
            yield event(Kind.RETRIEVAL, at - 2, 0.1, **in_step)
            yield event(Kind.TRANSFORMATION, at - 2, 1.9 + wait, **in_step)
            for part in range(3):
                yield event(
                    Kind.REQUEST,
                    at - 2 + part / 10,
                    0.01,
                    name="read",
                    file=f"/data/[b]shard\x1b{step % 4}.tar",
                    bytes=40_000 * 10**part,
                    **in_step,
                )


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "job.parquet"
    pq.write_table(pa.Table.from_batches([batch_of(events())]), path)
    return path


def test_the_most_important_comes_first_and_fits_a_hundred_columns(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", str(trace), "--price", "2.50"]) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert re.fullmatch(r"\S.* · 644 events in 50\.0 s · job mm-7 of 4 ranks", lines[0])
    assert max(map(len, lines)) <= 100
    titles = [
        "1. transform-bound",
        "Accelerators stood still",
        "Times",
        "Loading consists of",
        "Told by loads",
        "Stragglers",
        "Checkpoints",
        "Sizes of requests",
        "Asked of storage",
        "Phases",
        "Hottest files",
        "Not told by this trace",
    ]
    places = [said.index(title) for title in titles]
    assert places == sorted(places)
    assert "0 s more than the mean of hosts" in said
    assert "They cost 0.0458 at the price given." in said
    assert "[b]shard" in said and "\x1b" not in said


def test_rates_are_those_of_the_time_in_which_ranks_worked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.parquet"
    late = event(Kind.CALL, 950, 50, job="mm-7", rank=0)
    pq.write_table(pa.Table.from_batches([batch_of([*events(), late])]), path)
    assert run(["analyze", str(path)]) == 0
    said = capsys.readouterr().out
    assert "events in 1000 s, most of it a pause ·" in said
    assert re.search(r"^  samples +2,560 +51\.2 $", said, re.MULTILINE)


def test_json_has_the_same_figures_and_more(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", str(trace), "--json", "-"]) == 0
    told = capsys.readouterr().out
    (job,) = msgspec.json.decode(told, type=Analysis).jobs
    assert (job.ranks, job.hosts, job.steps) == (4, 2, 20)
    assert job.accelerators is not None
    assert job.accelerators.idle_s == pytest.approx(4 * 10 + 5 + 6 + 7 + 8)
    assert job.loading is not None and len(job.loading.latency_s.curve) == 101
    assert run(["analyze", str(trace), "--json", str(tmp_path / "figures.json")]) == 0
    assert "Times" in capsys.readouterr().out
    assert json.loads((tmp_path / "figures.json").read_text()) == json.loads(told)


def test_the_page_has_every_drawing_and_table_and_needs_nothing_else(
    trace: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert run(["analyze", str(trace), "--html", str(page), "--price", "2.5e6"]) == 0
    html = page.read_text()
    assert html.count("45,833.33 at the price given") == 2
    for title in (
        "What each rank was at",
        "Where accelerators’ time went".replace("’", "&#x27;"),
        "Of what loading consists",
        "Loads and requests by how long they took",
        "Requests by size",
        "Hottest files over time",
        "Not told by this trace",
        "headrace agent",
    ):
        assert title in html
    assert html.count("<svg") == 6
    assert "http://" not in html.replace("http://www.w3.org", "") and "<script" not in html
    assert "[b]shard" in html and "\x1b" not in html


def test_a_page_of_processes_without_ranks_claims_no_number_of_ranks(tmp_path: Path) -> None:
    path, page = tmp_path / "job.parquet", tmp_path / "page.html"
    told = [event(kind, 2 * n, 1, pid=7) for n in range(9) for kind in (Kind.WAIT, Kind.STEP)]
    pq.write_table(pa.Table.from_batches([batch_of(told)]), path)
    assert run(["analyze", str(path), "--html", str(page)]) == 0
    assert ">process 7</text>" in page.read_text()
    assert "ranks." not in page.read_text()


def test_warm_up_is_left_out_if_that_is_asked_for(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", str(trace), "--skip", "15", "--json", "-"]) == 0
    (job,) = msgspec.json.decode(capsys.readouterr().out, type=Analysis).jobs
    assert job.steps == 5 and job.checkpoint_read is not None


def test_several_jobs_stand_beside_each_other_and_one_can_be_chosen(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.Table.from_batches([batch_of(events("other"))]), other)
    assert run(["analyze", str(trace), str(other)]) == 0
    said = capsys.readouterr().out
    assert "2 jobs" in said.splitlines()[0] and "\nJobs" in said
    assert run(["analyze", str(trace), str(other), "--job", "other"]) == 0
    assert "job other" in capsys.readouterr().out
    assert run(["analyze", str(trace), "--job", "othr"]) == 2
    assert "no job othr; it has mm-7" in capsys.readouterr().err


def test_a_trace_that_is_cut_off_says_so_first_and_exits_with_one(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cut.parquet").write_bytes(trace.read_bytes()[:-100])
    assert run(["analyze", str(trace), str(tmp_path / "cut.parquet")]) == 1
    said = capsys.readouterr().out
    assert said.startswith("PARTIAL: ") and "cut.parquet" in said


def test_files_that_are_no_traces_are_named(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.parquet").write_bytes(trace.read_bytes())
    (tmp_path / "notes.txt").write_text("not a trace")
    assert run(["analyze", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.index("No traces, left out") < said.index("notes.txt")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/no/such/trace"], "no trace /no/such/trace"),
        ([], "Missing argument"),
        (["TRACE", "--html", "/no/folder/page.html"], "no directory /no/folder"),
        (["TRACE", "--json", "/no/folder/figures.json"], "no directory /no/folder"),
        (["TRACE", "--html", "-"], "name a file"),
        (["TRACE", "--price", "-1"], "not in the range"),
        (["TRACE", "--skip", "20"], "no rank has more than 20; skip fewer"),
        (["TRACE", "--skip", "99", "--job", "othr"], "no job othr"),
    ],
)
def test_a_wrong_call_is_told_in_one_line_and_exits_with_two(
    arguments: list[str], says: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", *(one.replace("TRACE", str(trace)) for one in arguments)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_full_disk_is_told_and_exits_with_three(
    trace: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert run(["analyze", str(trace), option, "/dev/full"]) == 3
    said = "headrace: cannot write /dev/full: No space left on device; name another place\n"
    assert capsys.readouterr().err == said


def test_help_shows_two_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "--help"]) == 0
    assert capsys.readouterr().out.count("  headrace analyze ") >= 2
