"""What is to be written yet: the newest of each key, bounded however long writing fails."""

from __future__ import annotations

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from headrace.controller.unwritten import Key, Unwritten


def key(number: int) -> Key:
    return ("entry", str(number))


def test_of_a_row_that_came_and_went_nothing_is_left() -> None:
    changes = Unwritten()
    for number in range(1000):
        changes.put(key(number), b"row")
        assert dict(changes.take()).keys() <= {key(number), key(number - 1)}
        changes.failed()
        changes.drop(key(number))
    assert len(changes) == 0


def test_a_row_that_is_dropped_while_it_is_written_is_deleted_afterwards() -> None:
    changes = Unwritten()
    changes.put(key(1), b"row")
    changes.take()
    changes.drop(key(1))
    changes.written()
    assert changes.take() == {key(1): None}


def test_a_row_that_is_stored_is_deleted_though_writing_failed_meanwhile() -> None:
    changes = Unwritten([key(1)])
    changes.put(key(1), b"newer")
    changes.take()
    changes.failed()
    changes.drop(key(1))
    assert changes.take() == {key(1): None}


def test_what_was_put_is_held_once_it_is_written_whatever_came_since() -> None:
    changes = Unwritten()
    changes.put(key(1), b"row")
    first = changes.changed
    changes.take()
    changes.put(key(2), b"row")
    assert not changes.holds(first)
    changes.failed()
    assert not changes.holds(first)
    changes.take()
    changes.put(key(3), b"row")
    changes.written()
    assert changes.holds(first)
    assert not changes.holds(changes.changed)


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "written", "failed"]), st.integers(0, 5)),
    max_size=60,
)


@seed(23)
@settings(max_examples=400, deadline=None)
@given(STEPS, st.sets(st.integers(0, 5)))
def test_what_is_stored_in_the_end_is_what_lives(
    steps: list[tuple[str, int]], stored: set[int]
) -> None:
    changes = Unwritten(key(number) for number in stored)
    disk = {key(number): b"old" for number in stored}
    lives = dict(disk)

    def write() -> None:
        for one, row in changes.take().items():
            disk.pop(one, None)
            if row is not None:
                disk[one] = row
        changes.written()

    for count, (step, number) in enumerate(steps):
        match step:
            case "put":
                lives[key(number)] = str(count).encode()
                changes.put(key(number), lives[key(number)])
            case "drop":
                lives.pop(key(number), None)
                changes.drop(key(number))
            case "written":
                write()
            case _:
                changes.take()
                changes.failed()
        assert len(changes) <= len(disk.keys() | lives.keys())
    write()
    assert disk == lives
