"""Whatever breaks on an estate, the trainer gets the same batches, and none of them late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from estate import Estate, Run, estate

from headrace.client.config import LoaderConfig
from headrace.devhdfs.blocks import blocks_of, damage
from headrace.storage.hdfs.config import HdfsConfig
from testbed import faults

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first one starts the estate

STEPS, MOST_STEPS = 36, 56
"""Of 0.15 s each; the latter last longer than a cut of 5 s and than a NameNode's start."""

BREAKS, MENDS = 8, 30
"""Steps at whose end something breaks, and is mended."""

_LOADER, _HDFS = LoaderConfig(batch_size=1), HdfsConfig()
HEDGED_S = _LOADER.patience_s + _LOADER.grace_s
"""What does not come from an agent within this time is read from storage."""

READ_S = _HDFS.hedge_s + 2.0
"""The read itself, which may meet the same broken host first."""


@pytest.fixture(scope="module")
def whole(machine: None, hadoop: None) -> Iterator[Estate]:
    with estate() as made:
        yield made


@pytest.fixture(scope="module")
def expected(whole: Estate) -> list[str]:
    return whole.digests(MOST_STEPS)


class Disturbed(Protocol):
    """Trains while something breaks and is mended; checks what must hold whatever it was."""

    def __call__(
        self,
        break_it: Callable[[], object] = ...,
        mend_it: Callable[[], object] = ...,
        *,
        steps: int = ...,
    ) -> Run: ...


@pytest.fixture
def disturbed(whole: Estate, expected: list[str]) -> Disturbed:
    def nothing() -> None:
        """Some things mend themselves."""

    def run(
        break_it: Callable[[], object] = nothing,
        mend_it: Callable[[], object] = nothing,
        *,
        steps: int = STEPS,
    ) -> Run:
        told = whole.train(steps, at={BREAKS: break_it, MENDS: mend_it})
        assert told.digests == expected[:steps]
        assert told.longest_wait_s < HEDGED_S + READ_S, [step.wait_s for step in told.steps]
        return told

    return run


def test_an_undisturbed_estate_delivers_what_a_lone_loader_makes(disturbed: Disturbed) -> None:
    told = disturbed()
    assert told.end.samples_prepared > 0.8 * sum(step.samples for step in told.steps)


def test_a_datanode_that_dies_changes_nothing(whole: Estate, disturbed: Disturbed) -> None:
    datanode = whole.services.hdfs.datanodes[0]
    disturbed(datanode.kill, datanode.start)
    whole.services.hdfs.wait_ready()


def test_a_namenode_that_restarts_changes_nothing(whole: Estate, disturbed: Disturbed) -> None:
    disturbed(whole.services.hdfs.namenode.restart, steps=MOST_STEPS)
    whole.services.hdfs.wait_ready()


def test_an_agent_that_hangs_changes_nothing(whole: Estate, disturbed: Disturbed) -> None:
    agent = whole.services.agents["storage-2"]
    told = disturbed(agent.freeze, agent.thaw)
    assert told.end.samples_local + told.end.samples_hedged > 0


def test_a_link_that_is_cut_for_five_seconds_changes_nothing(
    whole: Estate, disturbed: Disturbed
) -> None:
    host = whole.bed.hosts["storage-3"]
    disturbed(lambda: faults.cut_link_for(host, 5.0), steps=MOST_STEPS)


def test_blocks_that_rot_on_a_disk_change_nothing(whole: Estate, disturbed: Disturbed) -> None:
    hdfs = whole.services.hdfs
    copies = [
        copy
        for file in whole.files
        for block in blocks_of(hdfs, file)
        for copy in block.copies
        if copy.datanode is hdfs.datanodes[1]
    ]
    assert copies
    disturbed(lambda: damage(copies))
