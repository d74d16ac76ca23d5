"""What is copied when: events in, actions out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from replicating_for_tests import (
    NBYTES,
    Rig,
    given_up,
    held,
    key,
    prunes,
    published,
    saved,
    started,
    ways,
)

from headrace.core.errors import ConfigError
from headrace.policy.replication.events import (
    ChunkReturned,
    Ended,
    EvaluationStarted,
    Failed,
    LinkChanged,
    Listed,
    Pruned,
    Publish,
    SeenCheckpoint,
    Signalled,
)
from headrace.policy.replication.terms import ReplicationLimits, Terms

WRITING = "no marker yet"
RUNS = [("a", 800), ("a", 900), ("b", 100), ("b", 200)]


def test_a_complete_checkpoint_is_sent_whole_and_then_published() -> None:
    rig = Rig()
    first = rig.list(saved(100))
    assert len(started(first)) == 4  # as many as may be in flight
    assert published(first) == []
    last = rig.finish()
    assert rig.state(100)[0] == "published"
    assert published(rig.actions) == ["step-100"]
    assert len(started(first + last)) == 5


def test_of_several_that_are_complete_only_the_newest_is_copied() -> None:
    rig = Rig()
    rig.list(saved(100), saved(300), saved(200))
    rig.finish()
    assert published(rig.actions) == ["step-300"]
    assert rig.state(100) == ("skipped", "superseded by step-300")


def test_each_folder_is_of_a_run_whose_newest_is_copied() -> None:
    rig = Rig()
    rig.list(*(replace(saved(step), path=f"{run}/step-{step}") for run, step in RUNS))
    rig.finish()
    assert sorted(published(rig.actions)) == ["a/step-900", "b/step-200"]


def test_once_keeps_so_many_of_each_run() -> None:
    rig = Rig(Terms(once=True, keep=1))
    rig.list(*(replace(saved(step), path=f"{run}/step-{step}") for run, step in RUNS))
    rig.finish()
    assert sorted(published(rig.actions)) == ["a/step-900", "b/step-200"]


def test_steps_decide_which_is_the_newest_and_not_their_spelling() -> None:
    rig = Rig()
    rig.list(saved(900), saved(1000))
    rig.finish()
    assert published(rig.actions) == ["step-1000"]


def test_files_are_sent_while_a_checkpoint_is_written_and_its_marker_is_not() -> None:
    rig = Rig()
    assert started(rig.list(saved(100, missing=WRITING))) == []
    sent = rig.pass_time(5.0)
    assert [chunk for _, chunk in started(sent)] == [f"shard-{n}" for n in range(4)]
    assert published(rig.finish()) == []
    assert [chunk for _, chunk in started(rig.list(saved(100)))] == ["marker"]
    assert published(rig.finish()) == ["step-100"]


def test_a_file_that_grows_is_not_sent_before_it_is_closed() -> None:
    rig = Rig()
    for second in range(20):
        rig.now = float(second)
        assert started(rig.list(saved(100, missing=WRITING, version=str(second)))) == []
    rig.now = 24.9
    assert len(started(rig.list(saved(100, missing=WRITING, version="20")))) == 0
    assert len(started(rig.pass_time(5.0))) == 4


def test_a_file_that_changed_after_it_was_sent_is_sent_again() -> None:
    rig = Rig()
    rig.list(saved(100, missing=WRITING))
    rig.pass_time(5.0)
    rig.finish()
    again = rig.list(saved(100, version="later"))
    assert len(started(again + rig.finish())) == 5
    assert rig.state(100)[0] == "published"


def test_nothing_is_published_that_was_not_the_same_when_looked_at_again() -> None:
    """A listing taken while files are made may show the marker without all files before it."""
    rig = Rig()
    partly = saved(100)
    rig.tell(Listed(replication="r", looked_at=0.0, seen=(saved(100, files=3),), held=()))
    rig.listings["r"] = Listed(replication="r", looked_at=0.0, seen=(partly,), held=())
    rig.finish()
    sent = {chunk for _, chunk in started(rig.actions)}
    assert sent == {"shard-0", "shard-1", "shard-2", "shard-3", "marker"}
    assert published(rig.actions) == ["step-100"]


def test_an_empty_file_is_part_of_a_complete_checkpoint() -> None:
    rig = Rig()
    rig.list(saved(100, size=0))
    assert published(rig.finish()) == ["step-100"]


def test_what_the_destination_has_is_not_sent() -> None:
    rig = Rig()
    assert started(rig.list(saved(100), held=(held(saved(100)),))) == []
    assert rig.state(100) == ("published", "the destination had it")


def test_another_checkpoint_of_the_same_name_is_not_overwritten() -> None:
    rig = Rig()
    found = rig.list(saved(100), held=(held(saved(100), is_copy=False),))
    assert "another checkpoint of this name" in given_up(found)[0][1]
    assert started(found) == []


def test_it_is_overwritten_where_that_is_wanted() -> None:
    rig = Rig(Terms(replace=True))
    rig.list(saved(100), held=(held(saved(100), is_copy=False),))
    rig.finish()
    assert [one.replace for one in rig.actions if isinstance(one, Publish)] == [True]


def test_it_is_overwritten_once_that_is_wanted() -> None:
    rig = Rig()
    rig.list(saved(100), held=(held(saved(100), is_copy=False),))
    rig.begin("r", Terms(replace=True))
    rig.list(saved(100), held=(held(saved(100), is_copy=False),))
    rig.finish()
    assert rig.state(100)[0] == "published"


def test_a_checkpoint_that_was_written_anew_is_not_taken_for_its_copy() -> None:
    rig = Rig()
    rig.list(saved(100))
    rig.finish()
    rig.list(saved(100, version="of another run"), held=(held(saved(100), is_copy=False),))
    assert "another checkpoint of this name" in rig.state(100)[1]


def test_it_is_copied_once_that_one_is_out_of_the_way() -> None:
    rig = Rig()
    rig.list(saved(100), held=(held(saved(100), is_copy=False),))
    assert len(started(rig.list(saved(100)))) == 4


def test_one_that_is_deleted_at_the_source_is_given_up() -> None:
    rig = Rig()
    rig.list(saved(100))
    assert given_up(rig.list()) == [
        ("step-100", "it was deleted at the source before it was copied")
    ]


def test_a_copy_that_arrived_stays_when_the_source_deletes_its_own() -> None:
    rig = Rig()
    rig.list(saved(100))
    rig.finish()
    assert given_up(rig.list()) == []


def test_a_damaged_checkpoint_is_given_up_and_an_older_one_copied_instead() -> None:
    rig = Rig()
    found = rig.list(
        saved(100), SeenCheckpoint(path="step-200", step=200, unreadable="its index is damaged")
    )
    assert given_up(found) == [("step-200", "its index is damaged")]
    rig.finish()
    assert published(rig.actions) == ["step-100"]


def test_an_older_one_is_copied_once_the_newest_proves_to_be_wrong() -> None:
    rig = Rig(limits=ReplicationLimits(wrong_tries=1))
    rig.list(saved(100), saved(200))
    assert ("step-100", "shard-0") in started(rig.fail_one("wrong", "digest"))


class TestSuperseded:
    """What was begun when a newer checkpoint is complete."""

    def test_little_of_it_is_left_for_the_newer_one(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9))
        rig.finish_one()
        assert given_up(rig.list(saved(100, files=9), saved(200, files=9))) == [
            ("step-100", "superseded by step-200")
        ]

    def test_much_of_it_is_finished_first(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9))
        for _ in range(3):
            rig.finish_one()
        rig.now = 60.0
        assert given_up(rig.list(saved(100, files=9), saved(200, files=9))) == []
        rig.finish()
        assert published(rig.actions) == ["step-100", "step-200"]

    def test_what_an_earlier_process_sent_much_of_is_finished(self) -> None:
        rig = Rig()
        rig.list(saved(100), saved(200), staged={"step-100": 3 * NBYTES})
        rig.finish()
        assert published(rig.actions) == ["step-100", "step-200"]

    def test_what_an_earlier_process_sent_little_of_is_given_up(self) -> None:
        rig = Rig()
        actions = rig.list(saved(100), saved(200), staged={"step-100": NBYTES})
        assert given_up(actions) == [("step-100", "superseded by step-200")]
        rig.finish()
        assert published(rig.actions) == ["step-200"]

    def test_once_leaves_it_whatever_was_sent_of_it_if_it_is_not_to_be_kept(self) -> None:
        rig = Rig(Terms(once=True, keep=1))
        actions = rig.list(saved(100), saved(200), staged={"step-100": 3 * NBYTES})
        assert given_up(actions) == [("step-100", "the newest 1 are kept")]

    def test_saves_faster_than_copies_do_not_keep_all_from_arriving(self) -> None:
        rig = Rig()
        steps: list[int] = []
        for step in range(100, 4000, 100):
            steps.append(step)
            rig.now += 10.0
            rig.list(*(saved(one, files=39) for one in steps))
            for _ in range(5):  # an eighth of one arrives between two saves
                rig.finish_one() if rig.running else rig.finish_publication()
        assert len(published(rig.actions)) >= 3

    def test_one_whose_writer_died_is_skipped(self) -> None:
        rig = Rig()
        rig.list(saved(100, missing=WRITING), saved(200))
        assert rig.state(100) == ("skipped", "superseded by step-200")


class TestUrgent:
    """A signal makes a checkpoint go before all others."""

    def test_others_give_way_between_two_pieces_until_it_is_published(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9))
        rig.finish_one()
        rig.finish_one()
        rig.finish_one()
        rig.list(saved(100, files=9), saved(200))
        assert ways(rig.signal(200)) == [{"step-200"}]
        urgent = [one for one in rig.running if one.key == key(200)]
        assert len(urgent) == 4  # room of its own
        last = []
        while not published(last):
            last += rig.finish_one(next(one for one in rig.running if one.key == key(200)))
        assert ways(last) == []
        assert {checkpoint for checkpoint, _ in started(last)} == {"step-200"}
        assert ways(rig.finish_publication()) == [None]
        rig.finish()
        assert rig.state(100)[0] == "published"

    def test_it_holds_nobody_up_while_it_cannot_go_on(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9), saved(200))
        rig.signal(100)
        assert ways(rig.actions) == [{"step-100"}]
        while any(one.key == key(100) for one in rig.running):
            rig.running.sort(key=lambda one: one.key != key(100))
            rig.fail_one()
        assert ways(rig.actions)[-1] is None
        rig.pass_time(60.0)
        assert ways(rig.actions)[-1] == {"step-100"}

    def test_nothing_moves_for_a_moment_while_it_is_looked_for(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9))
        assert ways(rig.signal(50)) == [{"step-100"}]  # there is none up to that step
        rig = Rig()
        rig.list(saved(100), held=(held(saved(100)),))
        assert ways(rig.signal(150)) == [set()]
        assert ways(rig.pass_time(2.9)) == []
        assert ways(rig.pass_time(0.2)) == [None]

    def test_it_is_the_newest_up_to_the_step(self) -> None:
        rig = Rig()
        rig.list(saved(100), saved(200), saved(300))
        rig.signal(250)
        assert rig.replicator.pairs["r"].copies["step-200"].urgent == "loss_spike at step 250"
        assert rig.state(200)[0] == "copying"
        assert rig.replicator.pairs["r"].copies["step-300"].urgent == ""

    def test_it_is_the_next_one_where_the_newest_was_copied(self) -> None:
        rig = Rig()
        rig.list(saved(100))
        rig.finish()
        rig.signal(150)
        rig.now = 60.0
        rig.list(saved(100), saved(200))
        assert rig.replicator.pairs["r"].copies["step-200"].urgent

    def test_a_signal_without_a_step_means_the_newest(self) -> None:
        rig = Rig()
        rig.signal()
        rig.list(saved(100), saved(200))
        assert rig.replicator.pairs["r"].copies["step-200"].urgent == "loss_spike"

    def test_a_signal_is_forgotten_after_an_hour(self) -> None:
        rig = Rig()
        rig.signal(150)
        rig.pass_time(3601.0)
        rig.list(saved(200))
        assert rig.replicator.pairs["r"].copies["step-200"].urgent == ""

    def test_a_signal_may_be_for_one_replication(self) -> None:
        rig = Rig()
        rig.begin("other")
        rig.list(saved(100))
        rig.tell(Signalled(kind="loss_spike", step=100, replication="other"))
        assert rig.replicator.pairs["r"].copies["step-100"].urgent == ""

    def test_one_that_was_left_for_a_newer_one_is_taken_up_again(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9))
        assert given_up(rig.list(saved(100, files=9), saved(200, files=9)))
        rig.signal(100)
        rig.finish()
        assert published(rig.actions) == ["step-100", "step-200"]

    def test_it_is_not_left_for_a_newer_one(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9))
        rig.signal(100)
        assert given_up(rig.list(saved(100, files=9), saved(200))) == []


class TestFailures:
    """What fails is tried again, later and later."""

    def test_a_chunk_that_failed_is_sent_again_after_a_pause(self) -> None:
        rig = Rig()
        rig.list(saved(100))
        assert started(rig.fail_one()) == []
        assert started(rig.pass_time(0.9)) == []
        assert started(rig.pass_time(0.1)) == [("step-100", "shard-0")]

    def test_pauses_double_and_end_with_what_goes_well(self) -> None:
        rig = Rig(limits=ReplicationLimits(chunks=1))
        rig.list(saved(100))
        pauses = []
        for _ in range(9):
            rig.fail_one()
            began = rig.now
            while not rig.running:
                rig.pass_time(0.5)
            pauses.append(rig.now - began)
        assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
        rig.finish_one()
        rig.fail_one()
        assert started(rig.pass_time(1.0)) != []

    def test_many_that_fail_at_once_count_once(self) -> None:
        rig = Rig()
        rig.list(saved(100))
        for _ in range(4):
            rig.fail_one()
        assert len(started(rig.pass_time(1.0))) == 4

    def test_others_go_on_meanwhile(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=9))
        for _ in range(3):
            rig.finish_one()
        rig.list(saved(100, files=9), saved(200))
        assert {one.key for one in rig.running} == {key(100)}
        while rig.running and rig.running[0].key == key(100):
            rig.fail_one()
        assert {one.key for one in rig.running} == {key(200)}

    def test_what_arrives_wrong_again_and_again_is_given_up(self) -> None:
        rig = Rig(limits=ReplicationLimits(chunks=1))
        rig.list(saved(100))
        for _ in range(2):
            assert given_up(rig.fail_one("wrong", "bad digest")) == []
            rig.pass_time(60.0)
        assert given_up(rig.fail_one("wrong", "bad digest")) == [("step-100", "bad digest")]

    def test_one_that_was_given_up_begins_anew_when_it_changes(self) -> None:
        rig = Rig(limits=ReplicationLimits(wrong_tries=1, chunks=4))
        rig.list(saved(100))
        rig.fail_one("wrong", "bad digest")
        rig.running.clear()
        rig.now = 100.0
        assert len(started(rig.list(saved(100, version="repaired")))) == 4

    def test_what_is_away_is_waited_for_without_end(self) -> None:
        rig = Rig(limits=ReplicationLimits(chunks=1))
        rig.list(saved(100))
        for _ in range(100):
            assert given_up(rig.fail_one()) == []
            rig.pass_time(60.0)
        rig.finish()
        assert rig.state(100)[0] == "published"

    def test_what_is_done_once_ends_some_time(self) -> None:
        rig = Rig(Terms(once=True), ReplicationLimits(chunks=1))
        rig.list(saved(100))
        for _ in range(5):
            assert given_up(rig.fail_one()) == []
            rig.pass_time(60.0)
        assert given_up(rig.fail_one()) == [("step-100", "cable cut")]

    def test_what_changed_meanwhile_is_cut_again(self) -> None:
        rig = Rig(limits=ReplicationLimits(chunks=1))
        rig.list(saved(100))
        rig.fail_one("changed", "replaced")
        rig.now = 10.0
        rig.list(saved(100, version="new"))
        rig.finish()
        assert rig.state(100)[0] == "published"

    def test_a_publication_that_failed_is_begun_anew(self) -> None:
        rig = Rig()
        rig.list(saved(100, files=1))
        rig.finish_one()
        rig.finish_one()
        rig.publishing.clear()
        rig.tell(Failed(key=key(100), kind="away", reason="destination full"))
        assert rig.replicator.pairs["r"].copies["step-100"].held_up == "destination full"
        rig.pass_time(1.0)
        assert len(rig.running) == 2
        rig.finish()
        assert rig.state(100)[0] == "published"

    def test_nothing_begins_while_a_store_does_not_answer(self) -> None:
        rig = Rig()
        rig.tell(LinkChanged(replication="r", up=False, reason="no route"))
        assert started(rig.list(saved(100))) == []
        assert len(started(rig.tell(LinkChanged(replication="r", up=True)))) == 4

    def test_a_refusal_is_final(self) -> None:
        rig = Rig()
        rig.list(saved(100))
        assert given_up(rig.fail_one("refused", "outside its roots"))


class TestOrder:
    """Which of several goes first."""

    def test_the_earliest_evaluation_goes_first(self) -> None:
        rig = Rig(Terms(evaluate_every_s=3600.0), ReplicationLimits(chunks=1))
        rig.begin("soon", Terms(evaluate_every_s=60.0))
        rig.list(saved(100))
        rig.list(saved(1), of="soon")
        rig.finish_one()
        assert {one.key for one in rig.running} == {key(1, "soon")}

    def test_of_one_deadline_the_newest_goes_first(self) -> None:
        rig = Rig(Terms(once=True), ReplicationLimits(chunks=1))
        rig.list(saved(100), saved(200))
        assert rig.running[0].key == key(200)
        rig.finish()
        assert published(rig.actions) == ["step-200", "step-100"]

    def test_the_bytes_in_flight_are_limited_too(self) -> None:
        rig = Rig(limits=ReplicationLimits(chunks=16, chunk_bytes=2 * NBYTES))
        rig.list(saved(100))
        assert len(rig.running) == 2

    def test_a_chunk_larger_than_the_limit_goes_alone(self) -> None:
        rig = Rig(limits=ReplicationLimits(chunks=16, chunk_bytes=1))
        rig.list(saved(100))
        assert len(rig.running) == 1

    def test_a_chunk_that_was_put_back_goes_first_again(self) -> None:
        rig = Rig(limits=ReplicationLimits(chunks=1))
        rig.list(saved(100))
        chunk = rig.running.pop(0)
        assert started(rig.tell(ChunkReturned(key=chunk.key, chunk=chunk.chunk.key))) == [
            ("step-100", "shard-0")
        ]


class TestTerms:
    """What is wanted of a replication."""

    def test_once_copies_what_is_complete_and_says_why_not_the_rest(self) -> None:
        rig = Rig(Terms(once=True))
        rig.list(saved(100), saved(200), saved(300, missing=WRITING))
        rig.finish()
        assert sorted(published(rig.actions)) == ["step-100", "step-200"]
        assert rig.state(300) == ("skipped", f"it is not complete: {WRITING}")

    def test_once_does_not_follow_what_comes_later(self) -> None:
        rig = Rig(Terms(once=True))
        rig.list(saved(100))
        rig.finish()
        assert started(rig.list(saved(100), saved(200))) == []

    def test_once_with_a_number_to_keep_copies_only_so_many(self) -> None:
        rig = Rig(Terms(once=True, keep=1))
        rig.list(saved(100), saved(200))
        rig.finish()
        assert published(rig.actions) == ["step-200"]

    def test_only_steps_that_are_evaluated_are_copied(self) -> None:
        rig = Rig(Terms(evaluate_every_steps=500))
        rig.list(saved(500), saved(600))
        rig.finish()
        assert published(rig.actions) == ["step-500"]
        assert rig.state(600) == ("skipped", "evaluations are every 500 steps")

    def test_a_step_that_is_not_evaluated_may_be_urgent(self) -> None:
        rig = Rig(Terms(evaluate_every_steps=500))
        rig.list(saved(500), saved(600))
        rig.signal(600)
        rig.finish()
        assert set(published(rig.actions)) == {"step-500", "step-600"}

    def test_the_destination_is_pruned_after_each_publication(self) -> None:
        rig = Rig(Terms(keep=2))
        assert prunes(rig.list(saved(100))) == [2]
        assert prunes(rig.tell(Pruned(replication="r", waits=False))) == []
        assert prunes(rig.finish()) == [2]

    def test_pruning_waits_for_readers_and_looks_again(self) -> None:
        rig = Rig(Terms(keep=2))
        rig.list()
        rig.tell(Pruned(replication="r", waits=True))
        assert prunes(rig.pass_time(59.0)) == []
        assert prunes(rig.pass_time(1.0)) == [2]

    def test_the_destination_is_pruned_again_when_a_pointer_let_go_of_one(self) -> None:
        rig = Rig(Terms(keep=2))
        rig.list()
        rig.tell(Pruned(replication="r", waits=False))
        listed = rig.listings["r"]
        assert prunes(rig.tell(replace(listed, pointed=True))) == [2]

    def test_terms_may_change_on_the_way(self) -> None:
        rig = Rig(Terms(evaluate_every_steps=500))
        rig.list(saved(600))
        rig.begin("r", Terms())
        assert rig.state(600)[0] == "copying"

    def test_ending_gives_up_what_is_on_its_way(self) -> None:
        rig = Rig()
        rig.list(saved(100))
        found = rig.tell(Ended(replication="r"))
        assert given_up(found) == [("step-100", "the replication was ended")]
        assert rig.tell(Failed(key=key(100), kind="away", reason="", chunk="shard-0")) == []

    @pytest.mark.parametrize(
        "terms",
        [
            {"keep": 0},
            {"evaluate_every_steps": 0},
            {"save_every_s": 0.0},
            {"evaluate_every_s": float("inf")},
        ],
    )
    def test_terms_that_make_no_sense_are_refused(self, terms: dict[str, float]) -> None:
        with pytest.raises(ConfigError, match="must be"):
            Terms(**terms)  # type: ignore[arg-type]


def test_the_deadline_is_the_next_evaluation_as_it_was_learnt() -> None:
    rig = Rig()
    rig.list()
    for _ in range(4):
        rig.pass_time(600.0)
        rig.tell(EvaluationStarted(replication="r"))
    rig.pass_time(100.0)
    rig.list(saved(100))
    assert rig.running[0].deadline == pytest.approx(5 * 600.0)


def test_the_deadline_is_the_next_save_where_nobody_evaluates() -> None:
    rig = Rig()
    rig.list()
    for step in range(1, 5):
        rig.pass_time(300.0)
        rig.list(saved(step), held=())
        rig.finish()
    assert rig.replicator.pairs["r"].copies["step-4"].deadline == pytest.approx(5 * 300.0)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_what_is_published_is_whole_and_all_ends(seed: int) -> None:
    """Seeds 0 to 39: chunks arrive, fail, change and come back at random, signals come between."""
    draw = random.Random(seed)
    rig, version = Rig(), "v"
    there = [saved(100)]
    arrived: set[tuple[str, str]] = set()
    for _ in range(300):
        rig.now += draw.uniform(0.0, 3.0)
        what = draw.random()
        if what < 0.05:
            version = f"v{rig.now}"
            there = [*there[-2:], saved(there[-1].step + 100, missing=WRITING, version=version)]  # type: ignore[operator]
        elif what < 0.1:
            there[-1] = saved(there[-1].step, version=version)  # type: ignore[arg-type]
        elif what < 0.15:
            rig.signal(draw.randrange(100, 2000))
        elif rig.running and what < 0.8:
            chunk = draw.choice(rig.running)
            arrived.add((chunk.key.checkpoint, chunk.chunk.key))
            rig.finish_one(chunk)
            while rig.publishing:
                path = rig.publishing[0].checkpoint
                assert {(path, "shard-0"), (path, "marker")} <= arrived
                rig.finish_publication()
        elif rig.running:
            draw.shuffle(rig.running)
            rig.fail_one(draw.choice(["gone", "changed", "away"]))
        rig.list(*there)
        assert len(rig.running) <= 8
    rig.now += 1000.0
    there[-1] = saved(there[-1].step, version=version)  # type: ignore[arg-type]
    for _ in range(20):
        rig.now += 100.0
        rig.list(*there)
        rig.finish()
    copies = rig.replicator.pairs["r"].copies.values()
    assert {copy.state for copy in copies} <= {"published", "skipped", "given-up"}
    assert rig.state(there[-1].step)[0] == "published"  # type: ignore[arg-type]
