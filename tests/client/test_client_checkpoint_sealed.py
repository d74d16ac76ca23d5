"""Items of plans travel unopened, unless a planner looks at them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_ranks import run_ranks
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import LoadPlan

from headrace.client.torch.checkpoint.sealed import SealedItems
from headrace.torch import CheckpointReader

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


class Item:
    """Counts how often one is unpickled in this process."""

    opened = 0

    def __setstate__(self, state: object) -> None:
        Item.opened += 1

    def __getstate__(self) -> object:
        return True


def sent(items: SealedItems) -> SealedItems:
    """Return it as it is at the next rank."""
    received = pickle.loads(pickle.dumps(items))
    assert isinstance(received, SealedItems)
    return received


def test_items_come_back_as_the_same_objects_without_being_opened() -> None:
    Item.opened = 0
    items: Any = [Item(), Item()]
    own = SealedItems(items)
    back = own.returned(sent(sent(own)))
    assert [id(one) for one in back] == [id(one) for one in items]
    assert Item.opened == 0


def test_who_looks_at_items_sees_them_and_may_change_them() -> None:
    own: Any = SealedItems([1, 2, 3])
    there: Any = sent(own)
    assert (len(there), list(there), there[1], there[:2]) == (3, [1, 2, 3], 2, [1, 2])
    assert copy.copy(there) == [1, 2, 3]
    there.append(9)
    assert own.returned(sent(there)) == [1, 2, 3, 9]
    assert own.returned([5]) == [5]


def test_items_of_another_rank_are_not_taken_for_one_s_own() -> None:
    own: Any = SealedItems([1])
    other: Any = SealedItems([2])
    assert own.returned(sent(other)) == [2]


class Reversing(DefaultLoadPlanner):
    """Looks at all ranks' items, and changes their order."""

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        assert all(len(plan.items) == 3 for plan in global_plan)
        global_plan[0].items.reverse()
        others = global_plan[1:]
        return [global_plan[0], *(replace(plan, items=plan.items[::-1]) for plan in others)]


@pytest.mark.parametrize("world", [1, 3])
def test_a_planner_that_changes_items_is_heard(tmp_path: Path, world: int) -> None:
    state = {name: torch.arange(n) for n, name in enumerate("abc", 5)}
    dcp.save(state, checkpoint_id=tmp_path / "saved", no_dist=True)

    def work(_: int) -> tuple[bool, list[str]]:
        came: list[str] = []

        class Noting(Reversing):
            def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
                came.extend(item.storage_index.fqn for item in central_plan.items)
                return super().finish_plan(central_plan)

        loaded = {name: torch.zeros_like(one) for name, one in state.items()}
        reader = CheckpointReader(tmp_path / "saved")
        dcp.load(loaded, storage_reader=reader, planner=Noting())
        return all(torch.equal(loaded[name], state[name]) for name in state), came

    assert run_ranks(world, work, tmp_path) == [(True, ["c", "b", "a"])] * world
