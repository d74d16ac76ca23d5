"""An anonymised trace names no one and nothing, and says the same of where time went."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client import steprows
from headrace.core.errors import CallerError, CorruptDataError, NotFoundError
from headrace.trace import anonymise as anonymising
from headrace.trace.anonymise import (
    MOST_SHIFT_NS,
    Anonymiser,
    anonymise,
    new_key,
    read_key,
)
from headrace.trace.events import COLUMNS, Event, Kind, batch_of
from headrace.trace.leaks import Words
from headrace.trace.opening import Trace, open_trace
from headrace.trace.parquetfile import EventParquetWriter
from headrace.trace.wellknown import COUNTS, known_tokens, tokens

KEY = b"a key of sixteen bytes or more"
BEGIN_NS = 1_767_225_600_000_000_000


def event(**columns: object) -> Event:
    return msgspec.convert({"kind": "request", "begin_ns": BEGIN_NS, **columns}, Event)


def anonymised(*events: Event, key: bytes = KEY, bucket_sizes: bool = False) -> list[dict]:
    anonymiser = Anonymiser(key, bucket_sizes=bucket_sizes)
    return anonymiser.anonymised(batch_of(events)).to_pylist()


def path_of(text: str, key: bytes = KEY) -> str:
    return anonymised(event(file=text), key=key)[0]["file"]


def stored(folder: Path, *events: Event) -> Trace:
    with EventParquetWriter(folder / "trace.parquet") as writer:
        writer.write(batch_of(events))
        writer.commit()
    return open_trace([folder / "trace.parquet"])


def test_a_path_keeps_its_depth_its_scheme_and_a_well_known_suffix() -> None:
    found = path_of("hdfs://nn1.corp:8020/projects/secret/shard-0001.tar.gz")
    scheme, empty, host, *folders, name = found.split("/")
    assert (scheme, empty, len(folders)) == ("hdfs:", "", 2)
    assert host.count(":") == 1
    assert name.endswith(".tar.gz")
    assert not set(tokens(found)) & {"corp", "8020", "projects", "secret", "shard", "0001"}


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("a/b.JPG", ".JPG"),
        ("a/.metadata", ".metadata"),
        ("a/__0_0.distcp", ".distcp"),
        ("b.tar", ".tar"),
        ("a/b", ""),
        ("a/b.tar/", ""),
        ("", ""),
    ],
)
def test_only_a_suffix_at_the_very_end_stays(text: str, suffix: str) -> None:
    found = path_of(text)
    assert found.endswith(suffix)
    assert found.count(".") == suffix.count(".")
    assert found.count("/") == text.count("/")


def test_an_unknown_suffix_is_hashed_so_that_kinds_of_files_stay_apart() -> None:
    first, second, other = (path_of(one) for one in ("a.secret", "b.secret", "b.hidden"))
    assert first.rpartition(".")[2] == second.rpartition(".")[2] != other.rpartition(".")[2]
    assert 1 <= len(first.rpartition(".")[2]) <= 12  # as long as an analysis takes for a suffix
    assert "secret" not in first


def test_the_same_names_have_the_same_hashes_under_one_key_only() -> None:
    assert path_of("/a/b.jpg") == path_of("/a/b.jpg") != path_of("/a/b.jpg", new_key())
    assert path_of("/a/b").split("/")[1] == path_of("/a").split("/")[1]


def test_hosts_and_replicas_that_are_one_machine_stay_one() -> None:
    (found,) = anonymised(event(host="node-7", replica="node-7:9866"))
    assert found["replica"].startswith(f"{found['host']}:")


def test_well_known_names_stay_and_others_do_not() -> None:
    names = ["pread", "__fxstat64", "torch.load", "getfileinfo", "my_secret_function", "open /x"]
    found = [row["name"] for row in anonymised(*(event(name=name) for name in names))]
    assert found[:4] == names[:4]
    assert all(name.startswith("x") and len(name) == 12 for name in found[4:])


def test_kinds_phases_and_counts_that_nobody_knows_are_not_told() -> None:
    (found,) = anonymised(
        event(kind="secret kind", phase="secret phase", counts={"samples": 3, "secret": 4})
    )
    assert found["kind"].startswith("x") and found["phase"].startswith("x")
    assert found["counts"] == [("samples", 3)]


def test_counts_keep_to_their_rows_also_in_a_slice() -> None:
    events = [
        event(counts={"secret": 1, "samples": 2}),
        event(),
        event(counts={"samples": 4, "queue_bytes": 1000}),
        event(counts={}),
    ]
    kept = [[("samples", 2)], None, [("samples", 4), ("queue_bytes", 1000)], []]
    assert [row["counts"] for row in anonymised(*events)] == kept
    batch = batch_of([event(counts={"samples": 9}), *events]).slice(1)
    assert [row["counts"] for row in Anonymiser(KEY).anonymised(batch).to_pylist()] == kept


def test_times_are_moved_by_one_amount_that_the_key_says() -> None:
    first, second = anonymised(event(), event(begin_ns=BEGIN_NS + 5))
    assert second["begin_ns"] - first["begin_ns"] == 5
    assert 0 < first["begin_ns"] - BEGIN_NS <= MOST_SHIFT_NS
    (other,) = anonymised(event(), key=new_key())
    assert other["begin_ns"] != first["begin_ns"]


def test_a_time_that_cannot_be_moved_is_an_error() -> None:
    with pytest.raises(CorruptDataError, match="it is no time"):
        anonymised(event(begin_ns=2**63 - 1))


def test_processes_have_other_numbers_that_tell_them_apart() -> None:
    found = anonymised(event(pid=7, tid=8), event(pid=8, tid=7), event())
    assert found[0]["pid"] == found[1]["tid"] != found[0]["tid"] == found[1]["pid"]
    assert found[2]["pid"] is None
    assert not {7, 8} & {found[0]["pid"], found[0]["tid"]}


def test_what_takes_time_and_where_is_left_as_it_is() -> None:
    kept = {
        "duration_ns": 1, "rank": 2, "step": 3, "epoch": 4, "offset": 5, "bytes": 6,
        "round_trips": 7, "queue_ns": 8, "cpu_ns": 9, "is_write": True, "count": 10,
    }  # fmt: skip
    (found,) = anonymised(event(**kept))
    assert {name: found[name] for name in kept} == kept


def test_sizes_are_put_into_buckets_if_asked() -> None:
    sizes = [0, 1, 1000, 1500, 15_000_000, 2**62]
    events = [event(bytes=one, offset=3_000_000, counts={"queue_bytes": one}) for one in sizes]
    found = anonymised(*events, event(), bucket_sizes=True)
    powers = [0, 1, 1024, 2048, 16_777_216, 2**62]
    assert [row["bytes"] for row in found] == [*powers, None]
    assert [row["offset"] for row in found] == [2 * 2**20] * len(sizes) + [None]
    assert [row["counts"] for row in found[:-1]] == [[("queue_bytes", one)] for one in powers]


def test_a_column_that_nobody_thought_of_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anonymising, "_KEPT", tuple(set(anonymising._KEPT) - {"cpu_ns"}))
    assert anonymised(event(cpu_ns=5))[0]["cpu_ns"] is None


def test_every_column_has_its_treatment() -> None:
    assert Anonymiser(KEY)._treatments.keys() == set(COLUMNS)


HOSTILE = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "..", "/", "//", "a/../b", "a\nb/c", "." * 300, "x" * 5000, "ünïcødé/日本.jpg", "\x00",
            "::", "hdfs://", "s3://bucket/key?versionId=a.jpg", "C:\\users\\me.png", "a.b.c.tar.gz",
        ]
    ),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(HOSTILE, min_size=1, max_size=8))
def test_no_word_of_hostile_names_survives(names: list[str]) -> None:
    columns = ("name", "job", "host", "phase", "sample", "file", "replica")
    events = [event(**dict.fromkeys(columns, name), counts={name: 1}) for name in names]
    found = Anonymiser(KEY).anonymised(batch_of(events))
    told = {word for row in found.to_pylist() for name in columns for word in tokens(row[name])}
    words = {word for name in names for word in tokens(name)}
    assert not told & words - known_tokens()
    assert [row["file"].count("/") for row in found.to_pylist()] == [
        one.count("/") for one in names
    ]


def test_a_trace_is_anonymised_into_a_file_that_opens_again(tmp_path: Path) -> None:
    events = [event(file=f"/secret/{k}.jpg", host="alpha", duration_ns=k) for k in range(10)]
    out = tmp_path / "out" / "shared.parquet"
    assert anonymise(stored(tmp_path, *events), out, Anonymiser(KEY)) == 10
    rows = pa.Table.from_batches(open_trace([out]).batches()).to_pylist()
    assert [row["duration_ns"] for row in rows] == list(range(10))
    assert b"secret" not in out.read_bytes() and b"alpha" not in out.read_bytes()


def test_an_empty_trace_stays_one(tmp_path: Path) -> None:
    out = tmp_path / "shared.parquet"
    assert anonymise(stored(tmp_path), out, Anonymiser(KEY)) == 0
    assert pq.read_table(out).num_rows == 0


def test_a_word_that_survives_is_an_error_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymising, "is_name", lambda _: True)
    trace = stored(tmp_path, event(name="merger_with_acme"))
    with pytest.raises(CorruptDataError, match=r": 3, such as 'acme', 'merger', 'with'"):
        anonymise(trace, tmp_path / "shared.parquet", Anonymiser(KEY))
    assert [path.name for path in tmp_path.iterdir()] == ["trace.parquet"]


def test_words_are_found_also_where_another_batch_named_them(tmp_path: Path) -> None:
    words = Words()
    words.add(batch_of([event(job="acme")]))
    words.add(batch_of([event(job="other", counts={"merger": 1})]))
    for leak in ({"file": "/x/ACME-1"}, {"counts": {"merger_bytes": 1}}):
        with EventParquetWriter(tmp_path / "out.parquet") as writer:
            writer.write(batch_of([event(**leak)]))
            with pytest.raises(CorruptDataError, match=": 1, such as"):
                words.require_absent(writer.finish())


def test_a_key_that_is_missing_or_short_is_refused_with_how_to_make_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(NotFoundError, match="head -c 32 /dev/urandom >"):
        read_key(path)
    path.write_bytes(b"short")
    with pytest.raises(CallerError, match="has 5 bytes, 16 are the least"):
        read_key(path)
    path.write_bytes(new_key())
    assert read_key(path) == path.read_bytes()


def test_what_headrace_counts_is_well_known() -> None:
    assert set(steprows.COUNTS) <= COUNTS


def test_kinds_are_known() -> None:
    assert {row["kind"] for row in anonymised(*(event(kind=kind) for kind in Kind))} == set(Kind)
