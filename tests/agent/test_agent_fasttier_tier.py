"""What the fast tier keeps, against real files and schedules."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from fasttier_for_tests import (
    ROOM_BYTES,
    SAMPLE_BYTES,
    Shelf,
    index_again,
    make_texts,
    shelf_in,
    spec_of,
    text_of,
)

from headrace.agent.arena import BLOCK
from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.fasttier.file import disk_file
from headrace.agent.fasttier.tier import LOOSE_SHARE
from headrace.agent.fasttier.trips import COPY_PATIENCE_S, Trips
from headrace.core.errors import ConfigError, StaleIndexError, StorageError


def lru_hits(trace: list[int], room: int) -> int:
    kept: OrderedDict[int, None] = OrderedDict()
    count = 0
    for key in trace:
        count += key in kept
        kept[key] = None
        kept.move_to_end(key)
        if len(kept) > room:
            kept.popitem(last=False)
    return count


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_texts(tmp_path_factory.mktemp("lake") / "texts")


def test_half_of_a_dataset_kept_is_half_of_the_reads_saved(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=32) as shelf:
        opened = shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        assert shelf.tier.statistics().hits == 0
        shelf.run("job", range(8, 40))
        found = shelf.tier.statistics()
    trace = [s for step in range(40) for s in opened.schedule.batch(step).samples.tolist()]
    assert 2 * lru_hits(trace, 32) < found.hits
    assert found.hits >= 0.5 * 32 * 8
    assert found.hits + found.misses == 40 * 8
    assert found.used_bytes <= found.budget_bytes
    assert found.hit_bytes == found.hits * SAMPLE_BYTES


def test_what_fits_as_a_whole_is_read_once(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        trips = Trips(shelf.tier)
        assert trips.hit_share() is None
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(32))
        assert shelf.tier.statistics().misses == 64
        assert trips.hit_share() == 0.75
        assert Trips(None).hit_share() is None


@pytest.mark.parametrize(("on_disk", "in_memory"), [(0, 72), (32, 40), (16, 16)])
def test_memory_and_disk_are_one_cache_of_which_memory_is_filled_first(
    texts: Path, tmp_path: Path, on_disk: int, in_memory: int
) -> None:
    with shelf_in(tmp_path, samples=on_disk + in_memory) as whole:
        whole.add("job", spec_of(texts))
        whole.run("job", range(32))
        expected = whole.tier.statistics()
    with shelf_in(tmp_path, on_disk, in_memory) as shelf:
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(4))
        first = shelf.tier.statistics()
        assert first.memory_used_bytes >= min(32, in_memory) * ROOM_BYTES - BLOCK
        shelf.run("job", range(4, 32))
        found = shelf.tier.statistics()
    assert abs(found.hits - expected.hits) <= 0.03 * 256, "one that lies in two pieces at most"
    assert found.memory_used_bytes <= found.memory_budget_bytes <= in_memory * ROOM_BYTES
    assert found.used_bytes <= found.budget_bytes
    share = in_memory / (on_disk + in_memory)
    assert abs(found.memory_hits / found.hits - share) < 0.15
    assert found.memory_hit_bytes == found.memory_hits * SAMPLE_BYTES


def test_a_copy_in_memory_that_rotted_is_noticed_too(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=0, in_memory=72) as shelf:
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        os.pwrite(shelf.tier.files.memory_fd, b"\0" * shelf.tier.files.memory_bytes, 0)
        shelf.run("job", range(8, 16))
        assert shelf.tier.statistics().corrupt == 64


def test_a_copy_s_tier_is_where_it_lies(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=60, in_memory=8) as shelf:
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        tiers = [shelf.tier.tier_of(0, row) for row in range(64)]
        assert {tier: tiers.count(tier) for tier in set(tiers)} == {"memory": 8, "ssd": 56}


@pytest.mark.parametrize(("seed", "room"), [(3, 10), (4, 66)])
def test_jobs_that_read_ahead_claim_nothing_that_they_have_read(
    texts: Path, tmp_path: Path, seed: int, room: int
) -> None:
    with shelf_in(tmp_path, samples=room) as shelf:
        shelf.add("first", spec_of(texts, seed=3))
        shelf.add("second", spec_of(texts, seed=seed))
        for step in range(8):
            shelf.run("first", range(step, step + 1), ahead=True)
            shelf.run("second", range(step, step + 1), ahead=True)
        found = shelf.tier.statistics()
        assert (found.misses, found.hits) == (64, 64)
        shelf.progress.at.update(first=7, second=7)
        shelf.tier.tidy()
        assert not any(shelf.tier.timetable._read.values())


def test_a_sample_whose_visits_are_read_in_another_order_stays_for_those_that_follow(
    texts: Path, tmp_path: Path
) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        schedule = shelf.add("job", spec_of(texts)).schedule
        other, sample = schedule.batch(0).samples.tolist()[:2]
        ids = np.array([sample])
        second = int(schedule.next_use(ids, 0)[0])
        shelf.read("job", 0, other)
        shelf.read("job", second, sample)
        shelf.read("job", 0, sample)
        third = shelf.begin("job", int(schedule.next_use(ids, second)[0]), sample)
        assert third is not None
        assert third.errand.kept is not None


def test_jobs_over_one_dataset_share_its_samples(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        shelf.add("first", spec_of(texts, seed=1))
        shelf.add("second", spec_of(texts, seed=2))
        for step in range(8):
            shelf.run("first", range(step, step + 1))
            shelf.run("second", range(step, step + 1))
        assert shelf.tier.statistics().misses == 64


def test_a_job_that_is_gone_makes_room(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=32) as shelf:
        shelf.add("old", spec_of(texts, seed=1))
        shelf.run("old", range(8))
        shelf.tier.forget_job("old")
        shelf.progress.gone.add("old")
        shelf.add("new", spec_of(texts, seed=2))
        shelf.run("new", range(16))
        assert shelf.tier.statistics().hits >= 24


def test_a_part_stays_free_while_samples_lie_in_many_pieces(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=32) as shelf:
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(16))
        full = shelf.tier.statistics()
        assert full.used_bytes > full.budget_bytes - ROOM_BYTES
        shelf.tier._space.pieces += 1000
        shelf.run("job", range(16, 32))
        loose = shelf.tier.statistics().used_bytes
        assert loose <= full.budget_bytes - full.budget_bytes // LOOSE_SHARE
        shelf.tier._space.pieces -= 1000
        shelf.run("job", range(32, 48))
        assert shelf.tier.statistics().used_bytes == full.used_bytes


def test_next_uses_are_remembered_for_no_step_that_is_over(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=32) as shelf:
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(20))
        shelf.run("job", range(20, 24), ahead=True)
        assert list(shelf.tier.timetable._known) == [("job", step) for step in range(20, 24)]


def test_no_time_is_spent_on_a_job_that_fell_silent(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        silent = shelf.add("silent", spec_of(texts, seed=5)).schedule
        shelf.add("job", spec_of(texts))
        with monkeypatch.context() as patched:
            patched.setattr(silent, "next_use", None)
            shelf.progress.gone.add("silent")
            shelf.run("job", range(16))
            shelf.tier.tidy()
        shelf.progress.gone.clear()
        shelf.run("silent", range(8))
        assert shelf.tier.statistics().misses == 64


def test_what_is_still_read_for_a_job_that_is_gone_is_read_from_where_it_lies(
    texts: Path, tmp_path: Path
) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        opened = shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        kept, begun = (int(sample) for sample in opened.schedule.batch(8).samples[:2])
        trip = shelf.begin("job", 8, begun)
        shelf.tier.forget_job("job")
        shelf.progress.gone.add("job")
        assert shelf.carry_out("job", begun, trip) == text_of(begun)
        assert shelf.begin("job", 8, kept) is None


def test_a_use_that_was_passed_over_does_not_keep_a_sample_for_ever(
    texts: Path, tmp_path: Path
) -> None:
    with shelf_in(tmp_path, samples=32) as shelf:
        opened = shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        shelf.progress.at["job"] = 30  # served by others, or raw
        shelf.tier.tidy()
        uses = [use for _, use in shelf.tier._cache.rotate(99)]
        assert uses
        assert all(use is not None and use.step > 30 for use in uses)
        assert opened.schedule.steps_per_epoch == 8


def test_a_copy_that_rotted_is_noticed_and_the_original_read(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        os.pwrite(shelf.tier.files.disk_fd, b"\0" * shelf.file.nbytes, 0)
        shelf.run("job", range(8, 16))
        found = shelf.tier.statistics()
    assert (found.corrupt, found.hits, found.off) == (64, 0, "")


def test_a_file_that_changed_is_noticed_although_its_samples_are_kept(tmp_path: Path) -> None:
    texts = make_texts(tmp_path / "texts")
    with shelf_in(tmp_path, samples=70) as shelf:
        opened = shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        os.utime(texts / "000.tar", ns=(1, 1))
        sample = int(opened.schedule.batch(8).samples[0])
        with pytest.raises(StaleIndexError, match="was modified"):
            shelf.read("job", 8, sample)


def test_copies_of_what_was_indexed_anew_are_not_used(tmp_path: Path) -> None:
    texts = make_texts(tmp_path / "texts")
    with shelf_in(tmp_path, samples=70) as shelf:
        shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        data = (texts / "000.tar").read_bytes()
        (texts / "000.tar").write_bytes(data.replace(text_of(5), b"x" * SAMPLE_BYTES))
        index_again(texts)  # the same places, so the same digest
        shelf.add("job", spec_of(texts))
        schedule = shelf.jobs["job"].open.schedule
        step = next(step for step in range(8, 16) if 5 in schedule.batch(step).samples)
        assert shelf.read("job", step, 5) == b"x" * SAMPLE_BYTES


def test_what_is_being_read_is_not_overwritten(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        opened = shelf.add("job", spec_of(texts))
        shelf.run("job", range(8))
        sample = int(opened.schedule.batch(8).samples[0])
        trip = shelf.begin("job", 8, sample)
        used = shelf.tier.statistics().used_bytes
        shelf.tier.forget_job("job")
        for key in list(shelf.tier._records):
            shelf.tier._drop(key)
        held = shelf.tier.statistics().used_bytes
        assert 0 < held < used
        assert shelf.carry_out("job", sample, trip) == text_of(sample)
        assert shelf.tier.statistics().used_bytes == 0


def test_a_read_that_fails_leaves_nothing_kept(texts: Path, tmp_path: Path) -> None:
    with shelf_in(tmp_path, samples=70) as shelf:
        opened = shelf.add("job", spec_of(texts))
        trip = shelf.begin("job", 0, int(opened.schedule.batch(0).samples[0]))
        assert trip is not None
        assert shelf.tier.statistics().used_bytes > 0
        shelf.tier.end(trip, None)
        assert shelf.tier.statistics().used_bytes == 0


def test_trouble_with_the_disk_switches_it_off_once_and_fails_nothing(
    texts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with shelf_in(tmp_path, samples=70) as shelf, caplog.at_level(logging.WARNING):
        opened = shelf.add("job", spec_of(texts))
        first, second = opened.schedule.batch(0).samples.tolist()[:2]
        trips = [shelf.begin("job", 0, sample) for sample in (first, second)]
        spare = os.open(os.devnull, os.O_RDONLY)
        os.dup2(spare, shelf.tier.files.disk_fd)  # neither read nor written any more
        for sample, trip in zip((first, second), trips, strict=True):
            assert shelf.carry_out("job", sample, trip) == text_of(sample)
        assert "writing to it failed" in shelf.tier.statistics().off
        assert shelf.begin("job", 1, first) is None
        os.close(spare)
    assert len([r for r in caplog.records if "not used any more" in r.message]) == 1


def test_a_disk_without_room_is_told_at_the_start() -> None:
    with pytest.raises(StorageError, match="fewer bytes"):
        disk_file(Path("/dev/shm"), 1 << 62)
    with pytest.raises(StorageError, match="may write to"):
        disk_file(Path("/proc"), 4096)


def test_the_file_has_no_name_and_goes_with_its_owner(tmp_path: Path) -> None:
    file = disk_file(tmp_path, 1 << 20)
    assert list(tmp_path.iterdir()) == []
    assert os.fstat(file.fd).st_blocks * 512 >= 1 << 20
    file.close()


@pytest.mark.parametrize("memory_cache", [-1, (64 << 20) - (1 << 19)])
def test_memory_for_copies_is_a_part_of_all_memory(memory_cache: int) -> None:
    config = {"token": "t" * 32, "memory_bytes": 64 << 20}
    with pytest.raises(ConfigError, match="must be left for prepared samples"):
        AgentConfig(**config, cache_memory_bytes=memory_cache)  # type: ignore[arg-type]
    engine = Engine(AgentConfig(**config, workers=0, cache_memory_bytes=24 << 20))  # type: ignore[arg-type]
    try:
        assert engine.queue_statistics().memory_budget_bytes == 40 << 20
        assert engine.fast.tier is not None
        assert engine.fast.tier.statistics().memory_budget_bytes == 24 << 20
    finally:
        engine.close()


def test_an_agent_whose_disk_has_no_room_keeps_samples_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = AgentConfig(
        token="t" * 32, workers=0, cache=tmp_path, cache_bytes=1 << 60, cache_memory_bytes=1 << 20
    )
    engine = Engine(config)
    try:
        assert engine.fast.tier is not None
        assert engine.fast.tier.budget == 1 << 20
        assert "nothing is kept on disk" in caplog.text
    finally:
        engine.close()


def test_who_needs_a_sample_that_is_being_read_waits_for_its_copy(
    texts: Path, tmp_path: Path
) -> None:
    async def play(shelf: Shelf, *, fails: bool) -> int:
        sample = int(shelf.jobs["job"].open.schedule.batch(0).samples[0])
        trips = Trips(shelf.tier)
        await trips.wait_for_copy(shelf.jobs["job"], 0, sample)  # nobody reads it
        trip = shelf.begin("job", 0, sample)
        assert trip is not None
        waiting = asyncio.ensure_future(trips.wait_for_copy(shelf.jobs["job"], 0, sample))
        await asyncio.sleep(0)
        assert not waiting.done()
        if fails:
            shelf.tier.end(trip, None)
        else:
            shelf.carry_out("job", sample, trip)
        await asyncio.wait_for(waiting, timeout=0.5 * COPY_PATIENCE_S)
        return shelf.tier.statistics().samples

    for fails in (False, True):
        with shelf_in(tmp_path, samples=70) as shelf:
            shelf.add("job", spec_of(texts))
            assert asyncio.run(play(shelf, fails=fails)) == (not fails)
