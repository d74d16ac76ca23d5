"""What is told of hotspots: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.controller.hotspots.leases import Over
from headrace.controller.hotspots.rows import LeaseRow
from headrace.policy.hotspot.events import HotFile, StoredFile, Wanted
from headrace.policy.hotspot.planner import Planner
from headrace.policy.hotspot.readiness import FileReadiness, readiness
from headrace.wire.hotspots import HotspotFile, HotspotState, HotspotView

PLANNING = "its checkpoint is read, and its files are looked at"


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is told, and by whom."""

    now: float
    """[s, monotonic]."""

    at: float
    """[s since 1970]."""

    kept: bool
    """Whether there is a journal."""


def view(row: LeaseRow, planner: Planner, moment: Moment, trouble: str) -> HotspotView:
    """Return how an announcement is that holds copies, or is about to.

    Args:
        row: Its record.
        planner: What is planned.
        moment: When.
        trouble: Why its checkpoint could not be read for now.
    """
    if row.id not in planner.leases:
        return _view(row, moment, state="planning", reason=trouble or PLANNING)
    lease = planner.leases[row.id]
    if lease.wanted is None:
        return _view(row, moment, state="planning", reason=PLANNING)
    found = readiness(planner, row.id, moment.now)
    sizes = {one.file: one for one in lease.files}
    saved = {one.file: one.saved_s for one in lease.wanted}
    files = tuple(_file(one, sizes[one.file], saved[one.file]) for one in found.files)
    return _view(
        row,
        moment,
        state=found.state,
        reason=_reason(files, next((one.trouble for one in found.files if one.trouble), "")),
        ready_share=found.ready_share,
        ready_in_s=found.ready_in_s,
        expires_in_s=lease.ends_at - moment.now,
        files=files,
    )


def ended_view(over: Over, planner: Planner, moment: Moment) -> HotspotView:
    """Return how an announcement is whose lease is over; ``lowering`` until nothing is left."""
    state, reason = over.state, over.reason
    lowering = [one.file for one in over.row.wanted or () if _is_lowering(planner, one.file)]
    if lowering:
        trouble = next((said for one in lowering if (said := planner.files[one].trouble)), "")
        state, reason = "lowering", f"{reason}; {trouble}" if trouble else reason
    return _view(over.row, moment, state=state, reason=reason, expires_in_s=0.0)


def planned_view(row: LeaseRow, wanted: Sequence[Wanted], files: Sequence[HotFile]) -> HotspotView:
    """Return what an announcement would do."""
    sizes = {one.file: one for one in files}
    told = tuple(_file(_intended(one), sizes[one.file], one.saved_s) for one in wanted)
    state: HotspotState = "intended" if any(one.state == "intended" for one in told) else "skipped"
    moment = Moment(now=0.0, at=row.announced_at, kept=True)
    return _view(
        row,
        moment,
        state=state,
        reason=_reason(told, ""),
        ready_in_s=max((one.ready_in_s for one in wanted), default=0.0),
        files=told,
    )


def _view(
    row: LeaseRow,
    moment: Moment,
    *,
    state: HotspotState,
    reason: str,
    ready_share: float = 0.0,
    ready_in_s: float | None = None,
    expires_in_s: float | None = None,
    files: tuple[HotspotFile, ...] = (),
) -> HotspotView:
    asked = row.asked
    left_s = row.expires_at - moment.at if expires_in_s is None else expires_in_s
    return HotspotView(
        id=row.id,
        job=asked.job,
        url=asked.url,
        world_size=asked.world_size,
        hosts=asked.hosts,
        state=state,
        reason=reason,
        ready_share=ready_share,
        ready_in_s=ready_in_s,
        announced_at=row.announced_at,
        hot_in_s=row.announced_at + asked.eta_s - moment.at,
        expires_in_s=left_s,
        kept=moment.kept,
        files=files,
    )


def _file(found: FileReadiness, file: HotFile, saved_s: float) -> HotspotFile:
    return HotspotFile(
        path=file.file.path,
        nbytes=file.size,
        hot_bytes=file.hot_bytes,
        readers=file.readers,
        wanted=found.wanted,
        original=found.original,
        live=found.live,
        state=found.state,
        reason=found.trouble or found.reason,
        saved_s=saved_s,
    )


def _intended(wanted: Wanted) -> FileReadiness:
    return FileReadiness(
        file=wanted.file,
        state="intended" if wanted.copies > wanted.original else "skipped",
        wanted=wanted.copies,
        original=wanted.original,
        live=wanted.original,
        reason=wanted.reason,
    )


def _reason(files: tuple[HotspotFile, ...], trouble: str) -> str:
    if not files:
        return "no file of it is read by many"
    raised = sum(one.wanted > one.original for one in files)
    if not raised:
        return files[0].reason
    said = f"{raised} of {len(files)} hot files get more copies"
    return f"{said}; {trouble}" if trouble else said


def _is_lowering(planner: Planner, file: StoredFile) -> bool:
    raised = planner.files.get(file)
    return raised is not None and not raised.wanted
