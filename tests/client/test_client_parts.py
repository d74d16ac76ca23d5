"""Costly clips are made in parts, here and by agents: the batches are those of whole clips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_agent as fake
import msgspec
import numpy as np
import pytest
from epochs import digests, loading
from fake_agent import FakeAgent, faking

from headrace import Loader
from headrace.client.pace import Pace, Reading
from headrace.core.errors import CorruptSampleError
from headrace.core.parts import WHOLE
from headrace.prepare.job import OpenJob
from headrace.prepare.sample import Prepared, Preparer
from headrace.wire.messages import FetchRequest
from longclips import PARTS, PIPELINE, long_clips, set_costs
from waiting import eventually

CLIPS = 3
OPTIONS: dict[str, Any] = {"pipeline": PIPELINE, "batch_size": 3}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_clips(tmp_path_factory.mktemp("parts") / "data", clips=CLIPS)


@pytest.fixture(scope="module")
def expected(dataset: Path) -> list[str]:
    """An epoch of which nothing is made in parts."""
    set_costs(dataset, 0.01)
    with loading(dataset, **OPTIONS) as loader:
        found = digests(loader)
        assert loader.summary().counts.divided == 0
    set_costs(dataset, 1.4)
    return found


Spoil = Callable[[int], bool]
"""Given the number of a part that is made here: whether it fails."""


@pytest.fixture
def spoiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[Spoil], list[int]]:
    """Let parts that are made here fail; return those that were tried."""

    def spoil(fails: Spoil) -> list[int]:
        tried: list[int] = []
        prepare = Preparer.prepare

        def failing(self: Preparer, *args: Any, **given: Any) -> Prepared:
            part = given.get("part")
            if part is not None and not part.is_whole:
                tried.append(part.number)
                if fails(part.number):
                    raise CorruptSampleError("a bad frame")
            return prepare(self, *args, **given)

        monkeypatch.setattr(Preparer, "prepare", failing)
        return tried

    return spoil


def parts_asked(agent: FakeAgent) -> list[int]:
    return [part.number for fetch in agent.fetches for part in fetch.parts if not part.is_whole]


def test_a_loader_without_agents_makes_parts_on_all_its_threads(
    dataset: Path, expected: list[str], spoiling: Callable[[Spoil], list[int]]
) -> None:
    tried = spoiling(lambda number: False)
    with loading(dataset, **OPTIONS) as loader:
        assert digests(loader) == expected
        counts = loader.summary().counts
    assert min(Counter(tried)[number] for number in range(PARTS)) >= CLIPS
    assert (counts.divided, counts.local, counts.samples) == (CLIPS, 9, 9)


def test_a_part_that_fails_says_nothing_of_the_clip(
    dataset: Path, expected: list[str], spoiling: Callable[[Spoil], list[int]]
) -> None:
    spoiling(lambda number: number == 1)
    with loading(dataset, **OPTIONS) as loader:
        assert digests(loader) == expected
        assert loader.summary().counts.divided == loader.summary().counts.substituted == 0


def test_a_damaged_clip_is_replaced_as_if_it_had_been_decoded_whole(tmp_path: Path) -> None:
    root = long_clips(tmp_path / "data", clips=3)
    clip = root / "v1.mp4"
    data = bytearray(clip.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    clip.write_bytes(data)

    def told(cost_s: float) -> tuple[list[str], list[str]]:
        set_costs(root, cost_s)
        with loading(root, **OPTIONS) as loader:
            found = digests(loader)
            return found, [item.key for item in loader.summary().replaced]

    whole = told(0.01)
    assert whole[1] == ["v1.mp4"]
    assert told(1.4) == whole


def test_agents_are_asked_for_the_parts_that_fall_to_them(
    dataset: Path, expected: list[str]
) -> None:
    agents = [FakeAgent(name, fake.honest) for name in ("one", "two", "three")]
    with faking(*agents) as addresses, loading(dataset, agents=addresses, **OPTIONS) as loader:
        assert digests(loader) == expected
        counts = loader.summary().counts
    asked = [Counter(parts_asked(agent)) for agent in agents]
    assert min(sum(asked, Counter())[number] for number in range(PARTS)) >= CLIPS
    assert sum(map(bool, asked)) > 1, "parts of a clip go to several agents"
    assert (counts.divided, counts.tensor, counts.hedged, counts.local) == (CLIPS, 9, 0, 0)


Asked = tuple[str, int, int]
"""Name of an agent, sample and epoch."""


def without_part(number: int, late: set[Asked] | None = None) -> fake.Behaviour:
    """An honest agent that cannot make a part of any clip; ``late`` is told which, and whose."""

    def behave(agent: FakeAgent, request: FetchRequest) -> fake.Frames:
        parts = request.parts or [None] * len(request.samples)
        frames = fake.honest(agent, request)
        for part, sample, epoch in zip(parts, request.samples, request.epochs, strict=True):
            frame = next(frames)
            if part is not None and part.number == number and not part.is_whole:
                header, record = agent.missing(sample, epoch, "late", "not ready in time")
                if late is not None:
                    late.add((agent.name, sample, epoch))
                frame = msgspec.structs.replace(header, part=part), record
            yield frame

    return behave


def test_a_part_that_an_agent_cannot_make_in_time_is_made_here(
    dataset: Path, expected: list[str], spoiling: Callable[[Spoil], list[int]]
) -> None:
    tried = spoiling(lambda number: False)
    with (
        faking(FakeAgent("one", without_part(1))) as addresses,
        loading(dataset, agents=addresses, check_every=0, **OPTIONS) as loader,
    ):
        assert digests(loader) == expected
        counts = loader.summary().counts
    assert counts.divided == counts.hedged == CLIPS
    assert tried.count(1) >= CLIPS


def test_a_trainer_that_cannot_see_the_clip_gets_its_bytes_once_and_from_another_agent(
    dataset: Path, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    late: set[Asked] = set()
    agents = [FakeAgent(name, without_part(1, late)) for name in ("one", "two")]
    with faking(*agents) as addresses:
        with monkeypatch.context() as patch:
            patch.setattr(OpenJob, "preparer", lambda self, source: None)
            loader = Loader(dataset, agents=addresses, seed=3, **OPTIONS)
        with loader:
            assert digests(loader) == expected
            counts = loader.summary().counts
    raw = [
        (agent.name, fetch.samples[0], fetch.epochs[0])
        for agent in agents
        for fetch in agent.fetches
        if fetch.want == "raw"
    ]
    assert late.isdisjoint(raw), "its bytes come from another agent than the one that is late"
    once = {(sample, epoch) for _, sample, epoch in raw}
    assert len(raw) == len(once) >= CLIPS, "of later epochs as well, as far as they have begun"
    assert counts.hedged == CLIPS
    assert counts.divided == 0


def keeps_parts(agent: FakeAgent, request: FetchRequest) -> fake.Frames:
    """Answers for whole samples only, until it is released."""
    frames = list(fake.honest(agent, request))
    yield from (frame for frame in frames if frame[0].part.is_whole)
    agent.released.wait(30)


def test_what_takes_long_is_made_here_while_there_is_time_although_the_agent_has_more(
    tmp_path: Path, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = long_clips(tmp_path / "data", clips=CLIPS)
    set_costs(root, 20_000.0)
    far_off = Reading(consumed_step=-100, step_time_s=10.0)  # all steps are due in 1000 s
    monkeypatch.setattr(Pace, "read", lambda self: far_off)
    agent = FakeAgent("one", keeps_parts)
    with (
        faking(agent) as addresses,
        loading(root, agents=addresses, patience_s=0.1, grace_s=0.1, **OPTIONS) as loader,
    ):
        assert digests(loader) == expected
        assert loader.summary().counts.hedged == CLIPS
        agent.released.set()


def lying_about_parts(agent: FakeAgent, request: FetchRequest) -> fake.Frames:
    """Turns one bit in every part; of what is wanted raw, parts have nothing."""
    parts = request.parts or [WHOLE] * len(request.samples)
    for part, (header, record) in zip(parts, fake.honest(agent, request), strict=True):
        if part.is_whole:
            yield header, record
        elif request.want == "raw":
            missing, _ = agent.missing(header.sample, header.epoch, "asked", "raw is wanted")
            yield msgspec.structs.replace(missing, part=part), {}
        else:
            video = np.array(record["video"])
            video.flat[0] += 1
            yield header, {**record, "video": video}


def test_parts_of_an_agent_are_checked_as_samples_are(dataset: Path, expected: list[str]) -> None:
    with (
        faking(FakeAgent("one", lying_about_parts)) as addresses,
        loading(dataset, agents=addresses, check_every=1, prefetch_steps=1, **OPTIONS) as loader,
    ):
        for _ in loader:
            pass
        eventually(lambda: loader.statistics().background.checks.different)
        before = digests(loader)  # what was under way meanwhile may be wrong still
        with loading(dataset, **OPTIONS) as alone:
            alone.set_epoch(2)
            assert digests(loader) == digests(alone)
    assert len(before) == len(expected)
