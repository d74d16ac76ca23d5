"""Checkpoints are found wherever they are, and how many ranks read which bytes is added up."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.find import (
    LAYOUTS,
    FanIn,
    bytes_by_rank,
    bytes_once_per_host,
    fan_in,
    find_checkpoints,
    hot_ranges,
    layout_of,
    open_checkpoint,
)
from headrace.checkpoint.layout import Reading
from headrace.checkpoint.retention import prune
from headrace.core.errors import AccessError, CorruptDataError, NotFoundError
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage


@pytest.fixture
def runs(dcp_checkpoint: Callable[..., Path], tmp_path: Path) -> Path:
    """Two runs, with a checkpoint that is being written, a damaged one, and other files."""
    for place in ("a/step-9", "a/step-10", "b/c/step-3"):
        shutil.copytree(dcp_checkpoint(2), tmp_path / place)
    shutil.copytree(dcp_checkpoint(2), tmp_path / "a/step-11")
    (tmp_path / "a/step-11/.metadata").unlink()
    shutil.copytree(dcp_checkpoint(2), tmp_path / "a/step-8")
    (tmp_path / "a/step-8/.metadata").write_bytes(b"cos\nsystem\n.")
    shutil.copytree(dcp_checkpoint(2), tmp_path / ".headrace/staging/step-99")
    (tmp_path / "a/logs").mkdir()
    (tmp_path / "a/logs/out.txt").write_text("x")
    return tmp_path


def test_the_newest_is_last_and_one_that_is_damaged_says_so(runs: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = find_checkpoints(LocalStorage(runs), on_folder=lambda *one: seen.append(one))
    assert [one.path for one in found] == [
        "b/c/step-3",
        "a/step-8",
        "a/step-9",
        "a/step-10",
        "a/step-11",
    ]
    missing = {one.name: one.missing for one in found}
    assert missing["step-11"] == "no .metadata yet"
    assert "os.system" in missing["step-8"]
    assert not missing["step-9"] + missing["step-10"] + missing["step-3"]
    assert seen[-1][0] == seen[-1][1] == len(seen)


def test_one_that_leads_elsewhere_or_is_closed_to_this_user_hides_no_other(
    runs: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / ".metadata"
    shutil.move(runs / "a/step-9/.metadata", elsewhere)
    (runs / "a/step-9/.metadata").symlink_to(elsewhere)
    (runs / "a/step-11/.metadata").symlink_to(".metadata")
    opened = os.open

    def closed(path: str, *arguments: int) -> int:  # as root, all is open to whom tests run as
        if "step-3/.metadata" in path:
            raise PermissionError(errno.EACCES, "closed")
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", closed)
    storage = LocalStorage(runs)
    missing = {one.name: one.missing for one in find_checkpoints(storage)}
    assert "links to" in missing["step-9"]
    assert "a link that leads to itself" in missing["step-11"]
    assert "permission denied" in missing["step-3"]
    assert not missing["step-10"]
    assert prune(storage, "a", keep=1).removed == ()
    with pytest.raises(AccessError, match="links to"):
        open_checkpoint(storage, "a/step-9")


def test_a_checkpoint_that_is_removed_while_it_is_listed_is_left_out(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = LocalStorage.read

    def late(self: LocalStorage, path: str, *range_: int) -> bytes:
        if path == "a/step-9/.metadata":
            shutil.rmtree(runs / "a/step-9")
        return read(self, path, *range_)

    monkeypatch.setattr(LocalStorage, "read", late)
    found = find_checkpoints(LocalStorage(runs))
    assert "a/step-9" not in [one.path for one in found]
    assert "a/step-10" in [one.path for one in found]


def test_only_what_is_below_the_folder_is_found(runs: Path) -> None:
    storage = LocalStorage(runs)
    assert [one.path for one in find_checkpoints(storage, "/b/")] == ["b/c/step-3"]
    assert [one.path for one in find_checkpoints(storage, "b/c/step-3")] == ["b/c/step-3"]
    assert [one.path for one in find_checkpoints(LocalStorage(runs / "b/c/step-3"))] == [""]
    with pytest.raises(NotFoundError):
        find_checkpoints(storage, "nowhere")
    with pytest.raises(NotFoundError, match="is a file; name the folder"):
        find_checkpoints(storage, "b/c/step-3/.metadata")


def test_parts_of_a_checkpoint_that_are_of_another_layout_are_not_told_of_again(
    runs: Path, dcp_checkpoint: Callable[..., Path]
) -> None:
    folder = runs / "t/checkpoint-5"
    shutil.copytree(dcp_checkpoint(2), folder / "pytorch_model_fsdp_0")
    (folder / "trainer_state.json").write_text("{}")
    found = find_checkpoints(LocalStorage(runs), "t")
    assert [(one.path, one.layout) for one in found] == [("t/checkpoint-5", "huggingface")]


def test_one_checkpoint_is_opened_by_its_folder(runs: Path) -> None:
    storage = LocalStorage(runs)
    assert open_checkpoint(storage, "/a/step-10/").step == 10
    assert open_checkpoint(LocalStorage(runs / "a/step-10")).path == ""
    assert layout_of(open_checkpoint(storage, "a/step-10")) in LAYOUTS
    with pytest.raises(CorruptDataError, match=r"os\.system"):
        open_checkpoint(storage, "a/step-8")


def test_a_folder_that_is_none_is_refused_with_what_to_name_instead(runs: Path) -> None:
    storage = LocalStorage(runs)
    with pytest.raises(NotFoundError, match=f"holds 4; name one, such as {runs}/a/step-10"):
        open_checkpoint(storage, "a")
    with pytest.raises(NotFoundError, match="none of the layouts megatron-dist, "):
        open_checkpoint(storage, "a/logs")
    with pytest.raises(NotFoundError, match="is a file; name the folder"):
        open_checkpoint(storage, "a/step-9/.metadata")
    with pytest.raises(NotFoundError, match="nowhere"):
        open_checkpoint(storage, "nowhere")


def test_checkpoints_are_found_on_hdfs(runs: Path, hdfs_dir: str) -> None:
    storage = open_storage(hdfs_dir)
    for name in ("step-9", "step-10"):
        for file in (runs / "a" / name).iterdir():
            storage.write(f"run/{name}/{file.name}", file.read_bytes())
    found = find_checkpoints(storage, "run")
    assert [(one.path, one.complete) for one in found] == [
        ("run/step-9", True),
        ("run/step-10", True),
    ]
    one = open_checkpoint(storage, "run/step-10")
    assert layout_of(one).readings(storage, one, 3) == layout_of(one).readings(
        LocalStorage(runs / "a/step-10"), open_checkpoint(LocalStorage(runs / "a/step-10")), 3
    )
    storage.close()


def reading(file: str, offset: int, length: int, ranks: range, what: str = "t") -> Reading:
    return Reading(file=file, offset=offset, length=length, ranks=ranks, what=what)


readings = st.lists(
    st.builds(
        lambda file, offset, length, start, count, step: reading(
            file, offset, length, range(start, min(start + count * step, 12), step)
        ),
        st.sampled_from("ab"),
        st.integers(0, 20),
        st.integers(0, 10),
        st.integers(0, 11),
        st.integers(1, 12),
        st.integers(1, 5),
    ),
    max_size=8,
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(readings)
def test_readers_of_each_byte_are_added_up(found: list[Reading]) -> None:
    counts = {file: np.zeros(40, dtype=int) for file in "ab"}
    for one in found:
        counts[one.file][one.offset : one.offset + one.length] += len(one.ranks)
    told = {file: np.zeros(40, dtype=int) for file in "ab"}
    parts = fan_in(found)
    for part in parts:
        assert part.readers > 0 < part.length
        assert not told[part.file][part.offset : part.offset + part.length].any()
        told[part.file][part.offset : part.offset + part.length] = part.readers
    for file in "ab":
        assert (told[file] == counts[file]).all()
    assert hot_ranges(found, 5) == [part for part in parts if part.readers >= 5]
    for before, after in pairwise(parts):
        assert (before.file, before.offset + before.length, before.readers) != (
            after.file,
            after.offset,
            after.readers,
        )


@settings(max_examples=200, derandomize=True, deadline=None)
@given(readings, st.integers(1, 12))
def test_bytes_are_added_up_by_rank_and_by_host(found: list[Reading], per_host: int) -> None:
    by_rank = [sum(one.length for one in found if rank in one.ranks) for rank in range(12)]
    assert bytes_by_rank(found, 12).tolist() == by_rank
    by_host = sum(one.length * len({rank // per_host for rank in one.ranks}) for one in found)
    assert bytes_once_per_host(found, per_host) == by_host


def test_neighbours_with_as_many_readers_are_told_as_one() -> None:
    parts = fan_in(
        [
            reading("a", 0, 10, range(4), "first"),
            reading("a", 10, 5, range(8), "hot"),
            reading("a", 15, 5, range(4), "second"),
            reading("a", 20, 6, range(4, 8), "third"),
        ]
    )
    assert parts == [
        FanIn(file="a", offset=0, length=10, readers=4, what="first"),
        FanIn(file="a", offset=10, length=5, readers=8, what="hot"),
        FanIn(file="a", offset=15, length=11, readers=4, what="third and 1 more"),
    ]


def test_a_hundred_thousand_pieces_and_twenty_thousand_ranks_take_seconds() -> None:
    world = 20_000
    found = [
        reading(f"__{number % 500}_0.distcp", number // 500 * 1000, 1000, ranks)
        for number in range(100_000)
        for ranks in [range(number % world, world) if number % 10 else range(world)]
    ]
    begin = time.process_time()
    assert len(fan_in(found)) > 500
    assert bytes_by_rank(found, world).sum() == sum(1000 * len(one.ranks) for one in found)
    assert bytes_once_per_host(found, 8) > 0
    assert time.process_time() - begin < 20
