"""DFTracer's traces of all dialects become events; damage is named, never a traceback."""

from __future__ import annotations

import gzip
import json
import random
import re
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from importers_for_tests import read_by

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.trace.importer import Notes
from headrace.trace.importers.dftracer import DFTracer

TS = 1_744_611_914_000_000


def line(name: str, cat: str, ts: int, dur: int, **args: object) -> dict[str, Any]:
    return {
        "id": 1, "name": name, "cat": cat, "pid": 7, "tid": 8, "ts": TS + ts, "dur": dur,
        "ph": "X", "args": {"hhash": 9509357668201227806, **args},
    }  # fmt: skip


def name_of_hash(kind: str, name: str, value: int | str) -> dict[str, Any]:
    return {"name": kind, "cat": "dftracer", "ph": "M", "args": {"name": name, "value": value}}


LINES = [
    name_of_hash("HH", "corona171", 9509357668201227806),
    name_of_hash("FH", "/data/a.hdf5", 17868160079272185648),
    line("open", "POSIX", 0, 5, fhash=17868160079272185648, ret=19, flags=0),
    line("pread", "POSIX", 10, 90, fhash=17868160079272185648, ret=4096, count=8192, offset=2048),
    line("write", "POSIX", 110, 4, fhash=17868160079272185648, ret=100, count=100),
    line("read", "POSIX", 120, 1, ret=-1, count=100),
    line("fork", "POSIX", 125, 1, ret=0),
    line("HDF5Reader.get_sample", "reader", 9, 95, image_idx="82", step="25", epoch="-1"),
    line("FormatReader.preprocess", "reader", 104, 3, image_idx="82", step="25"),
    line("TorchDataset.__getitem__", "data_loader", 0, 110, image_idx="82", step="25"),
    line("loop.iter", "data_loader", 0, 200, step="4", image_idx="78"),
    line("TorchFramework.compute", "ai_framework", 210, 300, image_size="5"),
    line("loop.yield", "data_loader", 200, 400, step="4", image_idx="78"),
    line("PyTorchCheckpointing.save_checkpoint", "checkpoint", 700, 50, epoch="5"),
    line("DLIOBenchmark.run", "dlio_benchmark", 0, 1000, epoch="5"),
]


def text_of(lines: list[dict[str, Any]], end: str = "\n") -> bytes:
    texts = [json.dumps(one, separators=(",", ":")) for one in lines]
    return ("[\n" + end.join(texts) + "\n]\n").encode()


def written(folder: Path, data: bytes, name: str = "trace-3-of-8.pfw") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read(path: Path, notes: Notes | None = None) -> pa.Table:
    return read_by(DFTracer(), path, notes)


def row(table: pa.Table, name: str) -> dict[str, Any]:
    (found,) = table.filter(pc.equal(table["name"], name)).to_pylist()
    return found


def test_calls_become_events_of_the_kinds_that_they_are(tmp_path: Path) -> None:
    table = read(written(tmp_path, text_of(LINES)))
    assert dict(zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True)) == {
        "open": "metadata",
        "pread": "request",
        "write": "request",
        "read": "request",
        "fork": "call",
        "HDF5Reader.get_sample": "retrieval",
        "FormatReader.preprocess": "transformation",
        "TorchDataset.__getitem__": "load",
        "loop.iter": "wait",
        "TorchFramework.compute": "compute",
        "loop.yield": "call",
        "PyTorchCheckpointing.save_checkpoint": "checkpoint_save",
        "DLIOBenchmark.run": "call",
        None: "step",
    }


def test_a_read_has_its_file_host_rank_offset_and_bytes(tmp_path: Path) -> None:
    read_one = row(read(written(tmp_path, text_of(LINES))), "pread")
    assert {key: value for key, value in read_one.items() if value is not None} == {
        "kind": "request",
        "begin_ns": (TS + 10) * 1000,
        "duration_ns": 90_000,
        "name": "pread",
        "host": "corona171",
        "rank": 3,
        "pid": 7,
        "tid": 8,
        "file": "/data/a.hdf5",
        "offset": 2048,
        "bytes": 4096,
        "is_write": False,
    }


def test_what_failed_moved_no_bytes_and_an_epoch_below_zero_is_none(tmp_path: Path) -> None:
    table = read(written(tmp_path, text_of(LINES)))
    assert row(table, "read")["bytes"] is None
    sample = row(table, "HDF5Reader.get_sample")
    assert (sample["sample"], sample["step"], sample["epoch"]) == ("82", 25, None)


def test_a_step_is_a_wait_and_what_followed_it(tmp_path: Path) -> None:
    table = read(written(tmp_path, text_of(LINES)))
    (step,) = table.filter(pc.equal(table["kind"], "step")).to_pylist()
    assert (step["begin_ns"], step["duration_ns"], step["step"]) == (TS * 1000, 600_000, 4)


def test_the_last_step_of_an_epoch_of_dlio_is_told_by_its_work(tmp_path: Path) -> None:
    work = line("TorchFramework.compute", "ai_framework", 650, 300)
    table = read(written(tmp_path, text_of([*LINES, work])))
    (_, step) = table.filter(pc.equal(table["kind"], "step")).to_pylist()
    (_, wait) = table.filter(pc.equal(table["kind"], "wait")).to_pylist()
    assert (wait["begin_ns"], wait["duration_ns"]) == ((TS + 600) * 1000, 50_000)
    assert (step["begin_ns"], step["duration_ns"]) == ((TS + 600) * 1000, 350_000)
    assert wait["step"] == step["step"] == 5
    assert (wait["pid"], wait["tid"]) == (step["pid"], step["tid"]) == (7, 8)


def test_work_whose_wait_is_told_later_or_that_is_of_the_next_epoch_is_no_last_step(
    tmp_path: Path,
) -> None:
    def loop(ts: int, step: int) -> list[dict[str, Any]]:
        """DFTracer tells of a wait when the step has ended, after the work in it."""
        return [
            line("TorchFramework.compute", "ai_framework", ts + 50, 40),
            line("loop.iter", "data_loader", ts, 40, step=step),
            line("loop.yield", "data_loader", ts + 40, 60, step=step),
        ]

    last = line("TorchFramework.compute", "ai_framework", 250, 40)
    epochs = [*loop(0, 1), *loop(100, 2), last, *loop(1000, 1), *loop(1100, 2)]
    table = read(written(tmp_path, text_of(epochs)))
    steps = table.filter(pc.equal(table["kind"], "step")).sort_by("begin_ns")
    assert steps["step"].to_pylist() == [1, 2, 3, 1, 2]
    assert steps["duration_ns"].to_pylist() == [100_000, 100_000, 90_000, 100_000, 100_000]


def test_the_body_of_a_step_whose_wait_was_not_seen_is_no_step(tmp_path: Path) -> None:
    table = read(written(tmp_path, text_of([line("fetch.block", "dataloader", 5, 9)])))
    assert table["kind"].to_pylist() == ["call"]


def test_names_and_phases_of_the_newest_dialect_are_known(tmp_path: Path) -> None:
    new = [
        line("pread64", "POSIX", 0, 5, fhash="a3f", ret=10),
        line("fetch.iter", "dataloader", 1, 2, step=1, epoch=1),
        line("item", "data", 1, 2),
        line("preprocess", "data", 1, 2),
        line("compute", "compute", 1, 2),
        line("barrier", "comm", 1, 2),
        line("capture", "checkpoint", 1, 2),
        line("restart", "checkpoint", 1, 2),
        line("MPI_Barrier", "MPI", 1, 2),
    ]
    lines = [
        {"name": "FH", "cat": "dftracer", "ph": 4, "args": {"name": "/f", "value": "a3f"}},
        *({**one, "ph": 1} for one in new),
    ]
    table = read(written(tmp_path, b"".join(json.dumps(one).encode() + b"\n" for one in lines)))
    assert table["kind"].to_pylist() == [
        "request", "wait", "load", "transformation", "compute",
        "barrier", "checkpoint_save", "checkpoint_read", "barrier",
    ]  # fmt: skip
    assert row(table, "pread64")["file"] == "/f"


def test_texts_for_numbers_and_inline_names_of_the_older_dialect_are_read(tmp_path: Path) -> None:
    old = {
        "id": "5", "name": "write", "cat": "POSIX", "pid": "13", "tid": "26", "ts": str(TS),
        "dur": "106189", "ph": "X",
        "args": {"hostname": "corona237", "ret": "3276800", "fname": "/p/f.bat", "fd": 18},
    }  # fmt: skip
    mixed = {**old, "name": "read", "args": {**old["args"], "ret": 7}}  # type: ignore[dict-item]
    table = read(written(tmp_path, text_of([old, mixed]), "x.pfw"))
    assert table["bytes"].to_pylist() == [3276800, 7]
    assert table["pid"].to_pylist() == [13, 13]
    assert table["duration_ns"].to_pylist() == [106_189_000] * 2
    assert table["host"].to_pylist() == ["corona237"] * 2
    assert table["file"].to_pylist() == ["/p/f.bat"] * 2
    assert table["rank"].to_pylist() == [None] * 2


def test_items_of_stdio_are_counted_in_bytes(tmp_path: Path) -> None:
    table = read(written(tmp_path, text_of([line("fread", "STDIO", 0, 1, ret=3, size=512)])))
    assert table["bytes"].to_pylist() == [1536]


def test_a_record_of_several_calls_stands_for_them(tmp_path: Path) -> None:
    sums = {"dft_cnt": 3, "dur_sum": 900, "dur_min": 1, "ret_sum": 12_288, "ret_min": 1}
    same = {"dft_cnt": 2, "dur": 5, "ret": 10}
    cpu = {"name": "cpu", "cat": "sys", "ts": TS, "ph": "C", "args": {"user_pct": 12.5}}
    lines = [
        {**line("read", "POSIX", 0, 0), "ph": "C", "args": sums},
        {**line("write", "POSIX", 0, 0), "ph": 3, "args": same},
        cpu,
    ]
    table = read(written(tmp_path, text_of(lines)))
    assert table["count"].to_pylist() == [3, 2]
    assert table["duration_ns"].to_pylist() == [900_000, 10_000]
    assert table["bytes"].to_pylist() == [12_288, 20]


@pytest.mark.parametrize("end", [",\n", "\n", "\r\n", ",\r\n", "\n\n", "\n]\n[\n"])
def test_brackets_and_commas_around_the_lines_do_not_matter(tmp_path: Path, end: str) -> None:
    notes = Notes()
    table = read(written(tmp_path, text_of(LINES, end)), notes)
    assert table.equals(read(written(tmp_path, text_of(LINES))))
    assert not notes.problems


def test_gzip_of_several_members_and_archives_of_several_ranks_are_read(tmp_path: Path) -> None:
    text = text_of(LINES)
    plain = read(written(tmp_path, text))
    members = gzip.compress(text[:500]) + gzip.compress(text[500:]) + b"\0" * 512
    assert read(written(tmp_path, members, "trace-3-of-8.pfw.gz")).equals(plain)
    with tarfile.open(tmp_path / "ranks.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "trace-3-of-8.pfw", "run/trace-3-of-8.pfw")
        archive.add(tmp_path / "trace-3-of-8.pfw.gz", "run/trace-5-of-8.pfw.gz")
    both = read(tmp_path / "ranks.tar.gz")
    assert both.num_rows == 2 * plain.num_rows
    assert set(both["rank"].to_pylist()) == {3, 5}
    with tarfile.open(tmp_path / "padded.tar", "w") as archive:
        archive.add(tmp_path / "trace-3-of-8.pfw", "trace-3-of-8.pfw")
    assert read(tmp_path / "padded.tar").equals(plain)


def test_the_rank_is_that_of_the_file_not_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run-1-of-2"
    folder.mkdir()
    assert set(read(written(folder, text_of(LINES)))["rank"].to_pylist()) == {3}


def test_a_trace_is_told_by_its_name_or_its_first_lines(tmp_path: Path) -> None:
    tell = DFTracer().recognises
    assert tell(Path("a.pfw"), b"")
    assert tell(Path("a.json"), text_of(LINES))
    assert tell(Path("a.log"), json.dumps(line("x", "POSIX", 0, 0)).encode())
    assert not tell(Path("a.json"), b'{"schemaVersion": 1, "traceEvents": [{"ph": "X"}]}')
    assert not tell(Path("a.txt"), b"")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(written(tmp_path, text_of(LINES)), "d/a.pfw")
    assert tell(tmp_path / "a.tar", (tmp_path / "a.tar").read_bytes())


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.trace.importers.text.PIECE_BYTES", 1 << 16)

    def peak_of(copies: int) -> int:
        path = written(tmp_path, text_of(LINES * copies), "a.pfw")
        tracemalloc.start()
        events = sum(batch.num_rows for batch in DFTracer().read(path, Notes(), lambda _: None))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert events == 14 * copies
        return peak

    assert peak_of(1600) < 1.2 * peak_of(200)


def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    lines = text_of(LINES).split(b"\n")
    lines[4] = lines[4][:40]
    lines[8] = b'{"ph":"X","name":7}'
    notes = Notes()
    table = read(written(tmp_path, b"\n".join(lines)), notes)
    assert table.num_rows == 12
    assert [text.split(":")[0].rpartition(", ")[2] for text in notes.problems] == [
        "line 5",
        "line 9",
    ]


def test_a_file_name_that_is_not_utf_8_is_read(tmp_path: Path) -> None:
    text = text_of(LINES).replace(b"a.hdf5", b"\xe9.hdf5")
    assert row(read(written(tmp_path, text)), "open")["file"] == "/data/\ufffd.hdf5"


def test_a_cut_archive_or_gzip_gives_what_came_before(tmp_path: Path) -> None:
    rng = random.Random(3)
    lines = [line("read", "POSIX", rng.randrange(10**9), 3, ret=9) for _ in range(3000)]
    packed = gzip.compress(text_of(lines))
    notes = Notes()
    table = read(written(tmp_path, packed[: len(packed) // 2], "a.pfw.gz"), notes)
    assert 1000 < table.num_rows < 2000
    assert "ends within its gzip data" in notes.problems[0]
    with tarfile.open(tmp_path / "whole.tar.gz", "w:gz") as archive:
        archive.add(written(tmp_path, text_of(lines)), "trace-3-of-8.pfw")
    packed = (tmp_path / "whole.tar.gz").read_bytes()
    notes = Notes()
    table = read(written(tmp_path, packed[: len(packed) // 2], "a.tar.gz"), notes)
    assert 1000 < table.num_rows < 2000
    assert "the archive is cut" in notes.problems[0]


def test_damage_within_gzip_is_told_and_what_came_before_it_is_read(tmp_path: Path) -> None:
    rng = random.Random(3)
    lines = [line("read", "POSIX", rng.randrange(10**9), 3, ret=9) for _ in range(3000)]
    packed = bytearray(gzip.compress(text_of(lines)))
    middle = len(packed) // 2
    packed[middle : middle + 400] = rng.randbytes(400)
    notes = Notes()
    table = read(written(tmp_path, bytes(packed), "a.pfw.gz"), notes)
    assert 1000 < table.num_rows < 2000
    place = re.search(r"byte (\d+): damaged gzip", "".join(notes.problems))
    assert place is not None
    assert int(place[1]) > middle


def test_times_from_an_arbitrary_moment_are_told_to_be_so(tmp_path: Path) -> None:
    notes = Notes()
    read(written(tmp_path, text_of([{**LINES[2], "ts": 12}])), notes)
    assert notes.is_relative


def test_an_event_without_a_time_and_a_hash_without_a_name_are_problems(tmp_path: Path) -> None:
    notes = Notes()
    late = [{**LINES[2], "ts": "soon"}, LINES[3]]
    table = read(written(tmp_path, text_of(late)), notes)
    assert table["file"].to_pylist() == ["#17868160079272185648"]
    assert "1 events do not tell when they began" in notes.problems[0]
    assert "2 names of files or hosts" in notes.problems[1]


def test_a_file_without_one_event_is_an_error_that_names_a_line(tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match=r"a\.pfw, line 1: not an event"):
        read(written(tmp_path, b"\x89PNG\r\n\x1a\n" * 40, "a.pfw"))
    with pytest.raises(CorruptDataError, match="is empty"):
        read(written(tmp_path, b"", "a.pfw"))
    assert read(written(tmp_path, b"[\n]\n", "a.pfw")).num_rows == 0


def test_mutations_end_in_events_or_in_an_error_of_ours(tmp_path: Path) -> None:
    """Seed 20261130."""
    rng = random.Random(20261130)
    sources = [text_of(LINES), gzip.compress(text_of(LINES[:6]))]
    odd = [b"9223372036854775808", b"-1", b"NaN", b"1e400", b"null", b'"', b"}", b"[" * 3000, b"\n",
           b"\0", b"\xff", b"true", b"{}", b"18446744073709551616"]  # fmt: skip
    for _ in range(700):
        data = bytearray(rng.choice(sources))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(0, 20)] = rng.choice(odd)
        path = written(tmp_path, bytes(data), "a.pfw")
        try:
            for batch in DFTracer().read(path, Notes(), lambda _: None):
                batch.validate(full=True)
        except HeadraceError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize(
    "changed",
    [
        {"ts": 2**70},
        {"ts": -(2**62)},
        {"ts": 10**400},
        {"ph": "C", "args": {"dft_cnt": 2**70, "dur": 1}},
        {"name": "fetch.block", "ts": 4 * 10**15, "dur": 4 * 10**15},
    ],
)
def test_numbers_beyond_any_time_are_none(tmp_path: Path, changed: dict[str, Any]) -> None:
    fetch = line("fetch", "dataloader", -TS - 4 * 10**15, 1)
    odd = {**line("loop.yield", "dataloader", 20, 1), **changed}
    path = tmp_path / f"x-{9**20}-of-2.pfw"
    path.write_text("\n".join(map(json.dumps, [fetch, odd, line("read", "POSIX", 30, 1, ret=5)])))
    table = read_by(DFTracer(), path)
    assert 5 in table["bytes"].to_pylist()
    assert "step" not in table["kind"].to_pylist()
    assert table["rank"].null_count == len(table)


def test_a_step_that_would_end_before_it_began_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.pfw"
    lines = [line("fetch", "dataloader", 900, 1), line("fetch.block", "dataloader", 0, 5)]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert "step" not in read_by(DFTracer(), path)["kind"].to_pylist()


def test_items_that_are_more_bytes_than_there_can_be_are_not_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pfw"
    path.write_text(json.dumps(line("fread", "STDIO", 0, 5, ret=2**62, size=2**62)))
    assert read_by(DFTracer(), path)["bytes"].to_pylist() == [None]
