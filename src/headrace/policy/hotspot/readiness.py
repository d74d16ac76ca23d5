"""How far the copies of a lease are: told by what lives, never by what was asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.policy.hotspot.events import State, StoredFile, Wanted
from headrace.policy.hotspot.planner import Lease, Planner
from headrace.policy.hotspot.raised import RaisedFile


@dataclass(frozen=True, kw_only=True, slots=True)
class FileReadiness:
    """One file of a lease."""

    file: StoredFile
    state: State
    wanted: int
    original: int
    live: int
    """Copies that the block with the fewest has."""

    reason: str
    """Why so many are wanted."""

    trouble: str = ""
    """What keeps them from being made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    """A lease as a whole."""

    state: State
    ready_share: float
    """Part of the raised files' bytes that have as many copies as wanted, 0 to 1; 1 where
    nothing is raised."""

    ready_in_s: float | None
    """From the rate measured so far, else from the store's throttle; None: not known [s]."""

    files: tuple[FileReadiness, ...]


@dataclass(frozen=True, slots=True)
class _Held:
    """A file that a lease holds copies of."""

    wanted: Wanted
    raised: RaisedFile
    copies: int
    """Wanted, but for nodes that are not there any more."""


def readiness(planner: Planner, name: str, now: float) -> Readiness:
    """Return how far a lease is that the planner knows."""
    lease = planner.leases[name]
    if lease.wanted is None:
        return Readiness(state="planning", ready_share=0.0, ready_in_s=None, files=())
    of_all = [(one, _held(planner, name, one)) for one in lease.wanted]
    files = tuple(_of_file(planner, lease, one, found) for one, found in of_all)
    held = [found for _, found in of_all if found is not None]
    total = sum(one.raised.nbytes for one in held)
    ready = sum(one.raised.ready_bytes(one.copies) for one in held)
    return Readiness(
        state=_whole(one.state for one in files),
        ready_share=ready / total if total else float(not held),
        ready_in_s=_ready_in_s(lease, held, now),
        files=files,
    )


def _held(planner: Planner, name: str, wanted: Wanted) -> _Held | None:
    raised = planner.files.get(wanted.file)
    if raised is None or name not in raised.wanted:
        return None
    return _Held(wanted, raised, min(wanted.copies, _nodes(planner, wanted.file)))


def _nodes(planner: Planner, file: StoredFile) -> int:
    figures = planner.figures.get(file.store)
    return planner.limits.idle_ceiling if figures is None else figures.nodes


def _of_file(planner: Planner, lease: Lease, wanted: Wanted, held: _Held | None) -> FileReadiness:
    note = lease.notes.get(wanted.file, "")
    if held is None:
        return FileReadiness(
            file=wanted.file,
            state="skipped",
            wanted=wanted.original,
            original=wanted.original,
            live=wanted.original,
            reason=note or wanted.reason,
        )
    return FileReadiness(
        file=wanted.file,
        state=held.raised.state(_nodes(planner, wanted.file)),
        wanted=wanted.copies,
        original=wanted.original,
        live=held.raised.live,
        reason=wanted.reason,
        trouble=held.raised.trouble,
    )


def _whole(states: Iterable[State]) -> State:
    """Return the state of the file that is furthest from being ready."""
    found = set(states)
    order: tuple[State, ...] = ("raising", "intended", "held")
    return next((state for state in order if state in found), "skipped")


def _ready_in_s(lease: Lease, held: Sequence[_Held], now: float) -> float | None:
    whole = sum(one.copies * one.raised.nbytes for one in held)
    made = sum(one.raised.made_bytes(one.copies) for one in held)
    if not whole and held:
        return None
    if made >= whole:
        return 0.0
    passed_s = now - lease.began_at
    if made > lease.first_bytes and passed_s > 0:
        return (whole - made) * passed_s / (made - lease.first_bytes)
    left_s = max(one.wanted.ready_in_s for one in held) - passed_s
    return left_s if left_s > 0 else None
