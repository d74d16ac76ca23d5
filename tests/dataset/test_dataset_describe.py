from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_media import json_lines, picture, shard, write_all

from headrace.dataset.build import build_index
from headrace.dataset.describe import compare_files, describe, distribution
from headrace.dataset.listing import list_dataset
from headrace.storage.local import LocalStorage


def test_counts_add_up(tmp_path: Path) -> None:
    files = {
        "ant/1.jpg": picture(8, 8),
        "ant/2.jpg": picture(8, 8),
        "bee/1.jpg": b"broken",
        "t.jsonl": json_lines(["a", "b"]) + b"{}\n{}\n",
        "s.tar": shard([("a.jpg", picture(8, 8))])[:-10_000],
        "LICENSE": b"",
    }
    description = describe(build_index(LocalStorage(write_all(tmp_path, files))))
    groups = {(g.kind, g.container): (g.samples, g.broken) for g in description.groups}
    assert groups == {("image", "file"): (3, 1), ("text", "jsonl"): (4, 2)}
    assert description.classes == {"ant": 2, "bee": 1}
    assert (description.broken[0].count, description.broken[0].example) == (2, "t.jsonl#2")
    assert [problem.file for problem in description.problems] == ["s.tar"]
    assert description.file_bytes == sum(map(len, files.values()))
    assert description.ignored == {"": 1}


def test_changed_gone_and_new_files_are_told_apart(tmp_path: Path) -> None:
    names = ("same.jpg", "changed.jpg", "gone.jpg")
    storage = LocalStorage(write_all(tmp_path, dict.fromkeys(names, picture(8, 8))))
    index = build_index(storage)
    assert not compare_files(index, list_dataset(storage))
    storage.write("changed.jpg", picture(9, 9))
    storage.delete("gone.jpg")
    storage.write("new.jpg", picture(8, 8))
    stale = compare_files(index, list_dataset(storage))
    assert stale
    assert (stale.changed, stale.gone, stale.new) == (("changed.jpg",), ("gone.jpg",), ("new.jpg",))


def test_files_without_samples_are_named_and_not_taken_for_new_ones(tmp_path: Path) -> None:
    files = {"a.jpg": picture(8, 8), "empty.jsonl": b"", "none.tar": bytes(10240)}
    storage = LocalStorage(write_all(tmp_path, files))
    index = build_index(storage)
    names = [(problem.file, problem.severity) for problem in index.problems]
    assert names == [("empty.jsonl", "empty"), ("none.tar", "empty")]
    assert not compare_files(index, list_dataset(storage))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 1e12), max_size=50))
def test_a_distribution_is_in_order_and_counts_every_positive_value(values: list[float]) -> None:
    spread = distribution(np.array(values))
    assert spread.p50 <= spread.p90 <= spread.p99 <= spread.largest * (1 + 1e-12)
    assert sum(spread.histogram) == sum(1 for value in values if value > 0)
    assert spread.total == pytest.approx(sum(values))
