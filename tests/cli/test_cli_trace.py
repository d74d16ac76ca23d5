"""The verbs of ``headrace trace``: what they print, write, refuse and return."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import run
from headrace.cli.trace_export import READERS
from headrace.trace.contents import Contents
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.opening import open_trace
from headrace.trace.segments import SUFFIX, Origin
from headrace.trace.store import EventRecorder, RecorderLimits

SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two hosts, of which one's clock is 5 s ahead, with 20 steps and barriers each."""
    folder = tmp_path / "trace"
    for rank, host in enumerate(("a", "b")):
        with EventRecorder(folder, Origin(role="x", job="j", host=host, rank=rank)) as recorder:
            for step in range(20):
                begin = BEGIN + (step + 5 * rank) * SECOND
                common = {"begin_ns": begin, "duration_ns": SECOND // 2, "step": step}
                recorder.record(Event(kind=Kind.BARRIER, **common))
                recorder.record(Event(kind=Kind.REQUEST, bytes=1000, file="/d/f", **common))
    return folder


def segment(folder: Path) -> Path:
    return min(folder.glob(f"*{SUFFIX}"))


def test_show_tells_jobs_kinds_and_clocks(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trace / "notes.txt").write_text("x")
    assert run(["trace", "show", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "headrace · 2 files of" in out.splitlines()[0]
    assert "80 events" in out.splitlines()[0]
    [job] = [line for line in out.splitlines() if line.strip().startswith("j ")]
    assert job.split() == ["j", "2023-11-14", "22:13:20", "19.5", "s", "2", "2", "80"]
    [request] = [line for line in out.splitlines() if line.strip().startswith("request")]
    assert request.split() == ["request", "40", "20.0", "s", "40.0", "kB"]
    [clock] = [line for line in out.splitlines() if line.strip().startswith("b ")]
    assert clock.split()[:3] == ["b", "5.00", "s"]
    assert clock.split()[-1] == "yes"
    assert f"{trace}/notes.txt" in out


def test_show_says_the_same_as_json(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "show", str(trace), "--json", "-"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["format"], said["files"], said["events"]) == ("headrace", 2, 80)
    assert said["jobs"]["j"] == {
        "events": 80, "hosts": ["a", "b"], "ranks": [0, 1],
        "begin_ns": BEGIN, "end_ns": BEGIN + 39 * SECOND // 2, "span_s": 19.5,
    }  # fmt: skip
    assert said["kinds"]["request"] == {"events": 40, "seconds": 20.0, "bytes": 40_000}
    assert said["kinds"]["barrier"] == {"events": 40, "seconds": 20.0, "bytes": None}
    assert said["clocks"]["b"]["ahead_s"] == 5.0
    assert said["clocks"]["b"]["corrected"]


def test_show_of_a_damaged_trace_ends_with_1_and_says_where(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segment(trace)
    os.truncate(path, path.stat().st_size - 9)
    assert run(["trace", "show", str(trace)]) == 1
    out = capsys.readouterr().out
    assert "damaged" in out
    assert f"{path}: what follows byte" in out


def test_show_of_hostile_names_drives_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[31m[red]evil\n"
    with EventRecorder(tmp_path, Origin(role="x", job=evil, host=evil)) as recorder:
        recorder.record(Event(kind=evil, begin_ns=2**62, duration_ns=None))
    assert run(["trace", "show", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]evil" in out


def test_what_is_no_trace_is_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("hello")
    for call in (["show", "none"], ["show", str(tmp_path / "x")], ["compact", "none"]):
        assert run(["trace", *call]) == 2
        assert capsys.readouterr().err.startswith("headrace: ")


@pytest.mark.parametrize("name", ["perfetto", "otel", "parquet"])
def test_exports_are_written_and_say_who_reads_them(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    target = tmp_path / "out.file"
    assert run(["trace", "export", str(trace), "--to", name, str(target)]) == 0
    assert "80 events" in capsys.readouterr().err
    assert target.stat().st_size > 1000


def test_an_export_is_by_one_clock(trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    assert run(["trace", "export", str(trace), str(target), "--to", "parquet"]) == 0
    begins = [t for batch in open_trace([target]).batches() for t in batch["begin_ns"].to_pylist()]
    assert max(begins) - min(begins) == 19 * SECOND
    assert not open_trace([target]).clocks().offsets


def test_hosts_that_are_exported_one_by_one_can_be_compared_later(
    trace: Path, tmp_path: Path
) -> None:
    for segment_ in trace.iterdir():
        target = tmp_path / "out" / f"{segment_.name}.parquet"
        target.parent.mkdir(exist_ok=True)
        assert run(["trace", "export", str(segment_), str(target), "--to", "parquet"]) == 0
    assert open_trace([tmp_path / "out"]).clocks().offsets["b"].ns == 5 * SECOND


def test_what_was_lost_is_said_by_an_export_too(tmp_path: Path) -> None:
    limits = RecorderLimits(segment_bytes=10_000, folder_bytes=20_000)
    with EventRecorder(tmp_path / "t", Origin(role="x", host="h"), limits=limits) as recorder:
        for number in range(100):
            recorder.record(Event(kind=Kind.STEP, begin_ns=number, file=f"{number:0300}"))
            recorder.flush()
    target = tmp_path / "out.parquet"
    assert run(["trace", "export", str(tmp_path / "t"), str(target), "--to", "parquet"]) == 1
    exported = open_trace([target])
    kept = sum(batch.num_rows for batch in exported.batches())
    assert exported.notes.lost_events == 100 - kept > 0


def test_an_export_never_becomes_part_of_its_trace(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in (trace / "out.parquet", segment(trace)):
        before = sorted(trace.iterdir())
        assert run(["trace", "export", str(trace), str(target), "--to", "parquet"]) == 2
        assert "somewhere else" in capsys.readouterr().err
        assert sorted(trace.iterdir()) == before
    assert run(["trace", "export", str(trace), "--to", "otel"]) == 2
    assert "the file to write" in capsys.readouterr().err


def test_an_export_takes_no_place_of_a_pipe_or_of_what_a_link_names(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert run(["trace", "export", str(trace), str(tmp_path / "pipe"), "--to", "parquet"]) == 2
    assert "it is a device or a pipe; name a file" in capsys.readouterr().err
    assert (tmp_path / "pipe").is_fifo()
    for name in READERS:
        link, aim = tmp_path / f"link-{name}", tmp_path / f"aim-{name}"
        aim.touch()
        link.symlink_to(aim)
        assert run(["trace", "export", str(trace), str(link), "--to", name]) == 0
        assert link.is_symlink() and aim.stat().st_size > 0


def test_a_damaged_trace_is_exported_as_far_as_it_goes(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segment(trace)
    os.truncate(path, path.stat().st_size - 9)
    assert run(["trace", "export", str(trace), str(tmp_path / "t"), "--to", "otel"]) == 1
    assert str(path) in capsys.readouterr().err


def test_compact_says_what_became_of_a_folder(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", "compact", str(trace)]) == 0
    assert capsys.readouterr().out.startswith("2 segments, 80 events: ")
    assert [path.suffix for path in trace.iterdir()] == [".parquet"] * 2
    assert run(["trace", "show", str(trace)]) == 0
    assert "5.00 s" in capsys.readouterr().out


def test_compact_names_a_folder_in_which_nothing_was_recorded(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", "compact", str(trace.parent)]) == 2
    assert "no segments in" in capsys.readouterr().err
    for _ in range(2):
        assert run(["trace", "compact", str(trace)]) == 0
    assert capsys.readouterr().out.endswith("0 segments, 0 events: 0 B became 0 B\n")


def test_contents_do_not_depend_on_how_events_are_cut_into_batches() -> None:
    events = [
        Event(
            kind=Kind.REQUEST if n % 3 else Kind.STEP,
            begin_ns=1000 - n,
            duration_ns=n if n % 2 else None,
            job="j" if n % 5 else None,
            host=f"h{n % 4}",
            rank=n % 7 or None,
            bytes=n if n % 3 else None,
        )
        for n in range(100)
    ]
    whole, parts = Contents(), Contents()
    whole.add(batch_of(events))
    for begin in range(0, 100, 9):
        parts.add(batch_of(events[begin : begin + 9]))
    assert whole.jobs == parts.jobs
    assert whole.events == parts.events == 100
    for kind, contents in whole.kinds.items():
        assert parts.kinds[kind].seconds == pytest.approx(contents.seconds)
        assert parts.kinds[kind].bytes == contents.bytes


def test_show_says_that_times_are_relative(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "hdfs-audit.log"
    log.write_text(
        "1970-01-01 00:01:00,000 INFO FSNamesystem.audit: allowed=true\tugi=u\tip=/10.0.0.1\t"
        "cmd=open\tsrc=/d\tdst=null\tperm=null\n"
    )
    assert run(["trace", "show", str(log)]) == 0
    assert "arbitrary moment" in capsys.readouterr().out


def test_verbs_that_read_traces_import_no_pandas(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas')\n")
    program = (
        "import os, sys\n"
        "from headrace.cli.main import run\n"
        "import headrace.cli.analyze\n"
        "for words in sys.argv[1:]:\n"
        "    verb = os.fork()\n"
        "    if not verb:\n"
        "        sys.exit(run(words.split()) or 'pandas' in sys.modules)\n"
        "    if os.waitpid(verb, 0)[1]:\n"
        "        sys.exit(words)\n"
    )
    verbs = [
        f"trace export {trace} p --to parquet",
        f"trace export {trace} o --to otel",
        f"trace show {trace}",
        f"trace anonymize {trace} -o a",
        f"analyze {trace} --json figures",
        f"trace compact {trace}",
        "analyze p",
    ]
    done = subprocess.run(
        [sys.executable, "-c", program, *verbs],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
