"""Heavy samples begin before their step: the batches stay what they are, and nothing is left."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fake_agent as fake
import pytest
from epochs import digest, digests, loading
from fake_agent import FakeAgent, faking

from headrace import Loader
from headrace.client.headstart import HeadStartStatistics
from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.dataset.location import SampleLocation
from headrace.prepare.sample import Prepared, Preparer
from headrace.wire.messages import ErrorAnswer
from longclips import PARTS, PIPELINE, long_clips, save_clip, set_costs
from waiting import eventually

STEPS = 12
"""Of an epoch; the clip is in the last one."""

OPTIONS: dict[str, Any] = {
    "pipeline": PIPELINE,
    "batch_size": 2,
    "order": "sequential",
    "prefetch_steps": 2,
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("early") / "data"
    return long_clips(root, clips=1, pictures=2 * STEPS - 1)


@pytest.fixture(scope="module")
def expected(dataset: Path) -> list[str]:
    """Two epochs in which nothing is heavy."""
    set_costs(dataset, 0.01)
    with loading(dataset, **OPTIONS) as loader:
        found = [*digests(loader), *digests(loader)]
        assert loader.summary().counts.early == 0
    set_costs(dataset, 1.4)
    return found


@dataclass
class Clips:
    """Notes the parts of clips that are begun, each of which waits for ``going``."""

    begun: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Epoch → numbers of parts, -1 for a whole."""

    going: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def clips(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clips]:
    found = Clips()
    found.going.set()
    prepare = Preparer.prepare

    def noted(
        self: Preparer, location: SampleLocation, key: SampleKey, *, stop: int, **given: Any
    ) -> Prepared:
        if location.kind == "video":
            found.begun[key.epoch].append(given["part"].number if "part" in given else -1)
            assert found.going.wait(30)
        return prepare(self, location, key, stop=stop, **given)

    monkeypatch.setattr(Preparer, "prepare", noted)
    yield found
    found.going.set()


def early(loader: Loader) -> HeadStartStatistics:
    return loader.statistics().background.early


def take(batches: Iterator[Any], count: int) -> list[str]:
    """Take some batches as a loop that works on each for a moment: its pace becomes known."""
    found = []
    for _ in range(count):
        found.append(digest(next(batches)))
        time.sleep(0.002)
    return found


@pytest.mark.parametrize(("cost_s", "pieces"), [(1.4, PARTS), (0.4, 1)])
def test_a_clip_lies_ready_before_its_step_is_in_the_making(
    dataset: Path, expected: list[str], cost_s: float, pieces: int
) -> None:
    set_costs(dataset, cost_s)
    with loading(dataset, **OPTIONS) as loader:
        batches = iter(loader)
        found = take(batches, 3)
        eventually(lambda: early(loader).ready >= pieces)
        assert early(loader).held_bytes > 0
        found += take(batches, STEPS - 3)
        assert loader.summary().counts.early == pieces
        assert (loader.summary().counts.local, loader.summary().counts.samples) == (24, 24)
        assert found + digests(loader) == expected
    set_costs(dataset, 1.4)


def test_what_is_in_the_making_when_its_step_comes_is_waited_for(
    dataset: Path, expected: list[str], clips: Clips
) -> None:
    clips.going.clear()
    with loading(dataset, **OPTIONS) as loader:
        batches = iter(loader)
        found = take(batches, STEPS - 1)
        eventually(lambda: bool(clips.begun))
        threading.Timer(0.05, clips.going.set).start()
        found += take(batches, 1)
        assert found == expected[:STEPS]
        assert loader.summary().counts.early >= 1
    assert sorted(clips.begun[0]) == list(range(PARTS)), "each part is made once"


def test_a_loader_sent_elsewhere_drops_what_was_early_and_resumes_exactly(
    dataset: Path, expected: list[str], clips: Clips
) -> None:
    with loading(dataset, **OPTIONS) as loader:
        batches = iter(loader)
        take(batches, 5)
        state = loader.state_dict()
        eventually(lambda: early(loader).ready >= PARTS)
        clips.going.clear()
        loader.set_epoch(1)
        batches = iter(loader)
        assert take(batches, 1) == expected[STEPS : STEPS + 1]
        assert early(loader).ready == 0
        clips.going.set()
        loader.load_state_dict(state)
        assert digests(loader) == expected[5:STEPS]
    assert early(loader) == HeadStartStatistics(), "nothing is left when it is closed"


def test_a_damaged_clip_is_told_of_at_its_step_and_not_before(tmp_path: Path, clips: Clips) -> None:
    root = long_clips(tmp_path / "data", clips=1, pictures=2 * STEPS - 1)
    save_clip(root / "v0.mp4", seed=1)
    data = bytearray((root / "v0.mp4").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    (root / "v0.mp4").write_bytes(data)
    set_costs(root, 1.4)
    with loading(root, on_corrupt="raise", **OPTIONS) as loader:
        batches = iter(loader)
        take(batches, STEPS - 3)
        eventually(lambda: len(clips.begun[0]) >= PARTS)
        take(batches, 2)
        with pytest.raises(CorruptSampleError, match=r"v0\.mp4"):
            next(batches)


def test_what_clips_took_is_told_beside_what_their_headers_let_expect(dataset: Path) -> None:
    with loading(dataset, **OPTIONS) as loader:
        assert {one.kind: one.learned for one in loader.explain()} == {"image": None, "video": None}
        digests(loader)
        learned = {one.kind: one.learned for one in loader.explain()}
    assert 0.01 <= (learned["video"] or 0) < 1, "they are small, and their index calls them costly"
    assert learned["image"] is None, "headers of pictures are right enough"


def test_results_beyond_their_part_of_memory_are_not_kept(
    dataset: Path, expected: list[str], clips: Clips
) -> None:
    with loading(dataset, prefetch_bytes=4096, **OPTIONS) as loader:
        assert digests(loader) == expected[:STEPS]
        assert loader.summary().counts.early == 0
        assert early(loader).held_bytes <= 1024


def test_where_most_samples_are_heavy_none_is_begun_early(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    for number in range(8):
        save_clip(root / f"v{number}.mp4", frames=12, seed=number)
    set_costs(root, 1.4)
    with loading(root, **OPTIONS) as loader:
        take(iter(loader), 4)
        assert loader.summary().counts.early == 0


def test_agents_begin_heavy_samples_by_themselves(dataset: Path, expected: list[str]) -> None:
    with (
        faking(FakeAgent("one", fake.honest)) as addresses,
        loading(dataset, agents=addresses, **OPTIONS) as loader,
    ):
        assert digests(loader) == expected[:STEPS]
        assert loader.summary().counts.early == 0


def away(agent: FakeAgent) -> FakeAgent:
    agent.refusal_status = 502
    agent.refusal = ErrorAnswer(error="the NameNode does not answer", code="storage")
    return agent


def test_where_no_agent_answers_heavy_samples_are_begun_early_and_once(
    dataset: Path, expected: list[str], clips: Clips
) -> None:
    agent = away(FakeAgent("one", fake.honest))
    with (
        faking(agent) as addresses,
        loading(dataset, agents=addresses, **OPTIONS) as loader,
    ):
        batches = iter(loader)
        found = take(batches, 4)
        eventually(lambda: early(loader).ready >= PARTS)
        agent.refusal = None
        eventually(lambda: loader.statistics().background.agents[0].state == "up")
        found += take(batches, STEPS - 4)
        assert found == expected[:STEPS]
        assert loader.summary().counts.early == PARTS
        assert agent.fetches, "it is asked for the other samples"
    assert sorted(clips.begun[0]) == list(range(PARTS))
