"""What a long loop holds is counted, and what surely grows is told from what only varies."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.soak.experiments import ALONE, Held, Look, Restarted, Scale
from bench.soak.loop import Progress
from bench.soak.result import SIDES, Result, left_by
from bench.soak.trend import trend
from bench.soak.vitals import Vitals, vitals

MINUTES = 10
EVERY_S = 2.0
BASE = 100_000_000


def looks(*, per_hour: float = 0.0, files_at_end: int = 5, noise: float = 1e6) -> list[Look]:
    """Return looks at sides, of which the loader without agents grows."""
    draw = random.Random(1)
    count = int(MINUTES * 60 / EVERY_S) + 1
    found = []
    for number in range(count):
        at_s = number * EVERY_S
        grown = BASE + per_hour * at_s / 3600 + draw.gauss(0, noise)
        files = 5 + round((files_at_end - 5) * number / count) + draw.choice((0, 0, 1))
        sides = {side: _held(BASE, 5) for side in SIDES} | {ALONE: _held(grown, files)}
        found.append(Look(at_s, sides, {ALONE: Progress(steps=number)}))
    return found


def _held(own: float, files: int) -> Vitals:
    size = int(own)
    return Vitals(
        rss_bytes=2 * size, pss_bytes=size, own_bytes=size, shared_bytes=size // 10,
        handles=Counter({"files": files}),
    )  # fmt: skip


def _settled(handles: dict[str, float]) -> Held:
    return Held(own_bytes=1e6, shared_bytes=1e5, handles=handles)


def _verdicts(seen: list[Look]) -> dict[str, bool]:
    return Result(scale=Scale(minutes=MINUTES), looks=seen, restarted=()).verdicts()


def test_memory_that_only_varies_is_flat_and_a_leak_of_five_per_cent_an_hour_is_not() -> None:
    assert _verdicts(looks())["memory_flat"]
    assert not _verdicts(looks(per_hour=0.05 * BASE, noise=1e5))["memory_flat"]


def test_memory_of_a_run_of_a_minute_is_not_judged() -> None:
    assert "memory_flat" not in _verdicts(looks(per_hour=BASE)[:31])


def test_descriptors_that_come_and_go_are_flat_and_ten_more_are_not() -> None:
    assert _verdicts(looks())["handles_flat"]
    assert not _verdicts(looks(files_at_end=15))["handles_flat"]


def test_a_trend_is_the_slope_whatever_single_values_say() -> None:
    values = [float(number) for number in range(40)]
    values[7] = 1e9
    found = trend([3600.0 * number for number in range(40)], values)
    assert found.per_hour == 1.0
    assert found.least_per_hour <= 1.0 <= found.most_per_hour


def test_what_a_restart_leaves_behind_is_named_by_its_kind() -> None:
    before = _settled({"sockets": 3.0, "threads": 9.0, "mappings": 50.0})
    after = _settled({"sockets": 13.0, "threads": 10.0, "mappings": 99.0})
    restarted = Restarted(what="the rank", side="agent", before=before, after=after)
    assert left_by(restarted) == {"sockets": 10.0}


def test_shared_memory_is_part_of_what_a_process_owns(tmp_path: Path) -> None:
    with mmap.mmap(-1, 8 << 20) as shared:
        before = vitals(os.getpid(), tmp_path)
        shared[:] = b"x" * len(shared)
        after = vitals(os.getpid(), tmp_path)
    assert after.shared_bytes == before.shared_bytes + (8 << 20)
    assert after.shared_bytes <= after.own_bytes


def test_vitals_are_those_of_a_process_and_what_it_started(tmp_path: Path) -> None:
    (tmp_path / "left").write_text("")
    memory = os.memfd_create("of-the-test")
    before = vitals(os.getpid(), tmp_path)
    sleeper = subprocess.Popen(["sleep", "60"])
    reading, writing = os.pipe()
    try:
        after = vitals(os.getpid(), tmp_path)
    finally:
        sleeper.kill()
        sleeper.wait()
        for descriptor in (memory, reading, writing):
            os.close(descriptor)
    assert before.handles["temporary files"] == 1
    assert before.handles["memory files"] >= 1
    assert after.handles["processes"] == before.handles["processes"] + 1
    assert after.handles["pipes"] >= before.handles["pipes"] + 2
    assert 0 < after.own_bytes <= after.pss_bytes <= after.rss_bytes
