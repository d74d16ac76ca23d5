"""When agents began to run other ops on a kind of sample, as the job's first rank decided it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow.compute as pc

from headrace.analysis.columns import NULL, Columns
from headrace.analysis.figures import CutMove
from headrace.analysis.spreads import NS_PER_S
from headrace.trace.events import MOVE_CUT, Kind

MOST_MOVES = 1_000
"""That are kept of one job, the first ones."""

_TOLD = ("ops_before", "ops", "agent_ns", "trainer_ns", "link_bytes_per_s")


class MovedCuts:
    """Takes in events in any order; memory does not grow beyond twice ``MOST_MOVES``."""

    def __init__(self) -> None:
        self.given_up = 0
        """Moves for which there was no room."""

        self._moves: list[tuple[int, CutMove]] = []
        """When they were, and what."""

    def add(self, events: Columns) -> None:
        """Take in those of some events that are moves."""
        calls = events.of(Kind.CALL)
        codes, names = calls.texts("name")
        is_move = pc.starts_with(names, MOVE_CUT).to_numpy(zero_copy_only=False)
        if not is_move.any():
            return
        moves = calls.where((codes != NULL) & is_move[codes])
        self._moves += zip(moves.begins.tolist(), _moves(moves), strict=True)
        if len(self._moves) > 2 * MOST_MOVES:
            self._thin()

    def result(self, begin_ns: int) -> tuple[CutMove, ...]:
        """Return the moves in the order of time, which counts from a moment."""
        self._thin()
        return tuple(
            msgspec.structs.replace(move, at_s=(moment - begin_ns) / NS_PER_S)
            for moment, move in self._moves
        )

    def _thin(self) -> None:
        self._moves.sort(key=lambda found: (found[0], found[1].samples))
        self.given_up += len(self._moves[MOST_MOVES:])
        del self._moves[MOST_MOVES:]


def _moves(events: Columns) -> Iterator[CutMove]:
    names = events.strings("name").to_pylist()
    numbers = [events.numbers("bytes"), *map(events.counts, _TOLD)]
    for name, *row in zip(names, *(column.tolist() for column in numbers), strict=True):
        nbytes, before, after, agent_ns, trainer_ns, link = (
            None if value == NULL else value for value in row
        )
        yield CutMove(
            at_s=0.0,
            samples=name.removeprefix(MOVE_CUT),
            ops_before=before,
            ops=after,
            sample_bytes=nbytes,
            agent_s=_seconds(agent_ns),
            trainer_s=_seconds(trainer_ns),
            link_bytes_per_s=link,
        )


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / NS_PER_S
