"""Hot files are raised in stages, held by leases, and given back."""

from __future__ import annotations

import pytest
from hotspot_store import Store, figures, hot, stored

from headrace.policy.hotspot.events import (
    Ended,
    ForgetFile,
    KeptLease,
    Planned,
    Released,
    Renewed,
    Restored,
    SetCopies,
    Tick,
)
from headrace.policy.hotspot.planner import Planner
from headrace.policy.hotspot.readiness import readiness

A = stored("a")


@pytest.fixture
def store() -> Store:
    """A store with two files of three copies."""
    made = Store()
    made.add("a")
    made.add("b")
    return made


def test_copies_are_raised_threefold_a_stage_and_lowered_in_one_go(store: Store) -> None:
    store.announce("l", hot())
    store.run(10)
    assert store.sets == [9, 27, 50]
    assert readiness(store.planner, "l", store.now).state == "held"
    store.tell(Released(lease="l"))
    store.run(1)
    assert store.sets == [9, 27, 50, 3]
    assert not store.planner.files
    assert not store.kept


def test_a_stage_begins_when_the_one_before_is_there(store: Store) -> None:
    store.copies_per_s = 1
    store.announce("l", hot(), eta_s=200.0)
    store.run(5)
    assert store.sets == [9]
    store.run(2)
    assert store.sets == [9, 27]
    for _ in range(60):
        store.run(1)
        assert store.asked[A] <= 3 * max(store.live[A], 9)


def test_a_raise_is_written_down_before_it_goes_out(store: Store) -> None:
    store.announce("l", hot())
    kinds = [type(one).__name__ for one in store.done]
    assert kinds[:3] == ["Planned", "KeepFile", "SetCopies"]
    assert store.kept[A].original == 3


def test_a_lease_ends_by_itself_unless_it_is_renewed(store: Store) -> None:
    store.announce("l", hot(), lease_s=30.0)
    store.run(20)
    store.tell(Renewed(lease="l", lease_s=30.0))
    store.run(20)
    assert store.asked[A] == 50
    store.run(12)
    assert store.asked[A] == 3
    assert Ended(lease="l", reason="its time is over") in store.done


def test_two_leases_share_a_file_and_the_last_gives_all_back(store: Store) -> None:
    store.announce("small", hot(readers=20))
    store.run(5)
    assert store.asked[A] == 10
    store.announce("large", hot(readers=1000))
    store.run(10)
    assert store.asked[A] == 50
    assert store.planner.leases["large"].wanted[0].original == 3  # type: ignore[index]
    store.tell(Released(lease="large"))
    store.run(10)
    assert store.asked[A] == 50
    store.tell(Released(lease="small"))
    store.run(2)
    assert store.sets[-1] == store.asked[A] == 3
    assert min(store.sets) == 3


def test_a_number_that_somebody_else_set_is_left_alone(store: Store) -> None:
    store.announce("l", hot())
    store.run(10)
    store.asked[A] = 5
    store.run(2)
    (file,) = readiness(store.planner, "l", store.now).files
    assert file.state == "skipped"
    assert "somebody else set it to 5" in file.reason
    store.tell(Released(lease="l"))
    store.run(5)
    assert store.asked[A] == 5
    assert not store.kept


def test_somebody_who_lowers_a_raised_file_is_not_fought(store: Store) -> None:
    store.announce("l", hot())
    store.run(10)
    store.asked[A] = 3
    store.run(10)
    assert store.asked[A] == 3


def test_a_number_set_between_a_look_and_the_lowering_is_left_alone(store: Store) -> None:
    store.announce("l", hot())
    store.run(10)
    store.asked[A] = 2
    store.tell(Released(lease="l"))
    store.run(3)
    assert store.asked[A] == 2
    assert not store.planner.files


def test_while_other_files_lack_copies_nothing_is_raised(store: Store) -> None:
    store.endangered = 4
    store.announce("l", hot())
    store.run(20)
    assert store.sets == []
    (file,) = readiness(store.planner, "l", store.now).files
    assert file.state == "intended"
    assert "4 blocks of the store lack copies" in file.trouble
    store.endangered = 0
    store.run(10)
    assert store.asked[A] == 50


def test_copies_that_are_lacking_because_of_a_raise_hold_no_other_raise_back(store: Store) -> None:
    store.copies_per_s = 1
    store.announce("l", hot("a"), hot("b"), eta_s=200.0)
    store.run(30)
    assert store.asked[A] > 9
    assert store.asked[stored("b")] > 9


def test_a_store_that_is_away_is_asked_again_with_growing_pauses(store: Store) -> None:
    store.announce("l", hot())
    store.away = True
    store.tell(Released(lease="l"))
    store.run(60)
    lowers = [one for one in store.done if isinstance(one, SetCopies) and not one.is_raise]
    assert 4 <= len(lowers) <= 10
    store.away = False
    store.run(16)
    assert store.asked[A] == 3


def test_a_raise_that_is_carried_out_late_is_noticed_and_lowered(store: Store) -> None:
    store.announce("l", hot())
    store.away = True
    store.run(1)
    store.tell(Released(lease="l"))
    store.away = False
    store.run(5)
    assert store.asked[A] == 3
    store.asked[A] = 9  # the call that nobody answered
    store.run(5)
    assert store.asked[A] == 3
    store.run(70)
    assert not store.kept


def test_a_deleted_file_is_forgotten(store: Store) -> None:
    store.announce("l", hot("a"), hot("b"))
    store.run(10)
    del store.asked[A]
    store.run(2)
    assert A not in store.kept
    states = {one.file.path: one.state for one in readiness(store.planner, "l", store.now).files}
    assert states == {"a": "skipped", "b": "held"}


def test_a_file_that_is_gone_before_it_was_looked_at_does_not_hold_up_the_others(
    store: Store,
) -> None:
    store.announce("l", hot("a"), hot("never"))
    store.run(10)
    assert store.asked[A] == 50


def test_nodes_that_die_make_a_lease_no_less_ready_than_it_can_be(store: Store) -> None:
    store.announce("l", hot())
    store.run(10)
    store.figures = figures(nodes=10)
    store.live[A] = 10
    store.run(2)
    assert readiness(store.planner, "l", store.now).state == "held"
    assert readiness(store.planner, "l", store.now).ready_share == 1.0


def test_readiness_is_what_lives(store: Store) -> None:
    store.copies_per_s = 0
    store.announce("l", hot("a"), hot("b"))
    store.run(1)
    found = readiness(store.planner, "l", store.now)
    assert (found.state, found.ready_share) == ("raising", 0.0)
    store.copies_per_s = 1
    store.run(6)
    found = readiness(store.planner, "l", store.now)
    assert found.ready_share == 0.0
    assert found.files[0].live == 9
    assert found.ready_in_s == pytest.approx((50 - 9) * 7 / 6, rel=0.01)


def test_what_is_not_worth_raising_is_ready_at_once(store: Store) -> None:
    store.announce("l", hot(readers=4))
    found = readiness(store.planner, "l", store.now)
    assert (found.state, found.ready_share, found.ready_in_s) == ("skipped", 1.0, 0.0)
    assert not store.kept


def restarted(store: Store, *leases: KeptLease) -> Store:
    """Return the same store with a new planner that was told what was kept."""
    again = Store(asked=store.asked, live=store.live, kept=dict(store.kept), now=5000.0)
    again.tell(Restored(leases=leases, files=tuple(store.kept.values())))
    return again


def kept_lease(store: Store, name: str, lease_s: float) -> KeptLease:
    """Return what a restart knows of a lease."""
    (planned,) = (one for one in store.done if isinstance(one, Planned) and one.lease == name)
    return KeptLease(lease=name, files=(hot(),), wanted=planned.wanted, eta_s=-1.0, lease_s=lease_s)


def test_after_a_restart_a_lease_goes_on_and_ends_in_time(store: Store) -> None:
    store.announce("l", hot())
    store.run(2)
    again = restarted(store, kept_lease(store, "l", 20.0))
    again.run(15)
    assert again.asked[A] == 50
    again.run(10)
    assert again.asked[A] == 3
    assert not again.kept


@pytest.mark.parametrize("reached", [3, 9, 27])
def test_after_a_restart_what_no_lease_holds_is_lowered_wherever_it_was_interrupted(
    store: Store, reached: int
) -> None:
    store.announce("l", hot())
    store.run(2)
    store.asked[A] = reached
    again = restarted(store, kept_lease(store, "l", -1.0))
    again.run(2)
    assert again.asked[A] == 3
    assert not again.kept


def test_after_a_restart_a_lease_that_was_not_raised_yet_is_raised(store: Store) -> None:
    store.endangered = 1
    store.announce("l", hot())
    again = restarted(store, kept_lease(store, "l", 100.0))
    again.run(10)
    assert again.asked[A] == 50


def test_time_alone_does_nothing_to_an_empty_planner() -> None:
    assert Planner().handle(Tick(), 1.0) == []
    assert Planner().handle(Released(lease="nobody"), 1.0) == []


def test_a_lease_that_ends_before_its_file_was_raised_leaves_nothing(store: Store) -> None:
    store.endangered = 1
    store.announce("l", hot())
    store.tell(Released(lease="l"))
    assert not store.planner.files
    assert any(isinstance(one, ForgetFile) for one in store.done)
    assert store.sets == []


def test_a_file_that_never_could_be_raised_is_not_asked_for_its_own_number(store: Store) -> None:
    store.away = True
    store.announce("l", hot())
    store.run(5)
    store.tell(Released(lease="l"))
    store.look()
    tried = len([one for one in store.done if isinstance(one, SetCopies)])
    store.run(70)
    assert len([one for one in store.done if isinstance(one, SetCopies)]) == tried
    assert not store.planner.files


def test_of_two_leases_the_one_that_knows_more_hot_bytes_tells_what_a_file_is(
    store: Store,
) -> None:
    store.announce("l", hot(part=0.5))
    store.announce("k", hot(part=0.75))
    assert [one.hot_bytes for one in store.planner.to_look_at(A.store)] == [75_000_000]
