"""Names the causes of lost time, each with its evidence, what headrace has against it, and how
much that takes away.

Nothing is named without numbers of the trace that show it, nor if it took less than a share of
the ranks' time that is stated in :class:`headrace.analysis.thresholds.Thresholds`.
"""  # noqa: D205 - one sentence

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.analysis.activities import Activity
from headrace.analysis.attribution import causes_of_waits, is_rtt_bound, returnable_s
from headrace.analysis.causes import (
    ANSWERS,
    BESIDES_LOADING,
    CHECKPOINT_PLAN,
    CHECKPOINT_UNTOLD,
    REMOTE_CHECKPOINT,
    SAVING,
    Answer,
    Cause,
)
from headrace.analysis.columns import Mask
from headrace.analysis.evidence import JobEvidence
from headrace.analysis.figures import Accelerators, Finding, JobFigures
from headrace.analysis.heat import HeatSums
from headrace.analysis.reasons import reasons, told_round_trips, told_shares
from headrace.analysis.stragglers import Straggling, straggling
from headrace.analysis.thresholds import Thresholds
from headrace.analysis.view import UNTOLD, View, least_storm_ranks, ranks_at_checkpoints
from headrace.analysis.windows import Quantity
from headrace.report.units import percent, seconds
from headrace.trace.events import Kind


def findings(
    evidence: JobEvidence,
    figures: JobFigures,
    heat: HeatSums,
    *,
    thresholds: Thresholds | None = None,
) -> tuple[Finding, ...]:
    """Return what is wrong with a job, what lost most first.

    Where a trace tells neither waits nor checkpoints there is no finding at all, for it is not
    known whether time was lost. A job that lost hardly any has the finding ``none``, one that
    lost more than the trace explains ``unexplained``.

    Args:
        evidence: Of the job.
        figures: Of the job: whether accelerators worked, where it is known, for what is read,
            saved and waited for while they compute costs no time; what slow loads have in common.
        heat: How long its files were read, and when.
        thresholds: Where something begins to be said.
    """
    limits = thresholds or Thresholds()
    lost = _Lost.of(evidence, figures.accelerators)
    if not lost.of_s or not (lost.all_s or evidence.history.total(Quantity.WAITS)):
        return ()
    view = View(evidence, limits)
    least_s = limits.lost_share * lost.of_s
    losses = (*_checkpoints(view, lost), *_waits(view, lost))
    if max(lost.all_s, *(one.lost_s for one in losses), 0.0) < least_s:
        return (_finding(view, _nothing(lost), lost, ()),)
    named = [one for one in losses if one.lost_s >= min(least_s, limits.main_cause * lost.all_s)]
    named = named or [_unexplained(view, lost)]
    return tuple(
        _finding(view, loss, lost, _files(loss, view, figures, heat))
        for loss in sorted(named, key=lambda one: -one.lost_s)
    )


class _Reads(NamedTuple):
    """What reads files in some windows."""

    windows: Mask
    kinds: tuple[Kind, ...]
    """The first that names files in the trace counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Loss:
    """Time that one cause took."""

    cause: Cause
    lost_s: float
    evidence: tuple[str, ...]
    answer: Answer
    returnable_s: float | None = None
    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    reads: _Reads | None = None
    """Of files, where these are to blame."""


class _Lost(NamedTuple):
    """Time in which ranks stood still [s]."""

    wait_s: float
    read_s: float
    save_s: float
    of_s: float
    """All of the ranks' time [s]."""

    @classmethod
    def of(cls, evidence: JobEvidence, accelerators: Accelerators | None) -> _Lost:
        """Return what was waited, read and saved, but no more than accelerators were idle for."""
        wait_s, read_s, save_s = (
            evidence.history.total(one)
            for one in (Quantity.WAIT_S, Quantity.CHECKPOINT_READ_S, Quantity.CHECKPOINT_SAVE_S)
        )
        if accelerators is None:
            return cls(wait_s, read_s, save_s, evidence.ranks * evidence.span_s)
        idle_s = accelerators.by_cause_s
        return cls(
            wait_s if accelerators.compute_s is None else min(wait_s, idle_s[Activity.DATA]),
            min(read_s, idle_s[Activity.CHECKPOINT_READ]),
            min(save_s, idle_s[Activity.CHECKPOINT_SAVE]),
            accelerators.ranks * accelerators.span_s,
        )

    @property
    def all_s(self) -> float:
        return self.wait_s + self.read_s + self.save_s


def _files(loss: _Loss, view: View, figures: JobFigures, heat: HeatSums) -> tuple[str, ...]:
    if loss.reads is not None:
        return heat.busiest(loss.reads.kinds, view.history, loss.reads.windows)
    suspects = figures.loading.stragglers if figures.loading else None
    if loss.cause != Cause.STRAGGLER or suspects is None:
        return ()
    return tuple(one.name for one in suspects.files)


def _finding(view: View, loss: _Loss, lost: _Lost, files: tuple[str, ...]) -> Finding:
    return Finding(
        cause=loss.cause,
        job=view.evidence.job,
        lost_s=loss.lost_s,
        lost_share=min(1.0, loss.lost_s / lost.of_s),
        evidence=loss.evidence,
        answer=loss.answer.text,
        command=loss.answer.command,
        gain_at_most_s=loss.returnable_s,
        expected_gain=loss.answer.gain,
        basis=loss.answer.basis,
        hosts=loss.hosts,
        ranks=loss.ranks,
        files=files,
    )


def _nothing(lost: _Lost) -> _Loss:
    told = f"{percent(lost.all_s / lost.of_s)} of the ranks' time was lost to data and checkpoints"
    return _Loss(cause=Cause.NONE, lost_s=lost.all_s, evidence=(told,), answer=ANSWERS[Cause.NONE])


def _unexplained(view: View, lost: _Lost) -> _Loss:
    told = [*_at_checkpoints(view, lost)]
    if lost.wait_s:
        told += _unexplained_waits(view)
        told += _hidden(view, lost)
    of_checkpoints = lost.read_s + lost.save_s > lost.wait_s
    return _Loss(
        cause=Cause.UNEXPLAINED,
        lost_s=lost.all_s,
        evidence=tuple(told),
        answer=_look_at_checkpoints(view) if of_checkpoints else _look_at_loading(view),
    )


def _look_at_checkpoints(view: View) -> Answer:
    has_requests = view.history.total(Quantity.READS) > 0
    return CHECKPOINT_PLAN if has_requests else CHECKPOINT_UNTOLD


def _look_at_loading(view: View) -> Answer:
    is_told = view.tells_parts and not view.parts[UNTOLD].any()
    return BESIDES_LOADING if is_told else ANSWERS[Cause.UNEXPLAINED]


def _unexplained_waits(view: View) -> Iterator[str]:
    """Say what waits are held against, though nothing of it explains them."""
    waited = f"ranks waited {seconds(float(view.wait_s.sum()))} for data"
    if not view.tells_parts:
        yield f"{waited}, and the trace tells nothing of loading"
        return
    yield f"{waited}, and no part of loading explains it"
    yield from told_shares(view)


def _hidden(view: View, lost: _Lost) -> Iterator[str]:
    """Say in how much of the waits nothing stood still."""
    hidden_s = float(view.wait_s.sum()) - lost.wait_s
    if hidden_s >= 0.01 * lost.wait_s:
        yield f"accelerators computed in {seconds(hidden_s)} of all that was waited"


def _waits(view: View, lost: _Lost) -> Iterator[_Loss]:
    """Yield what the waits for data were lost to."""
    waited_s = float(view.wait_s.sum())
    for loss in _causes(view):
        evidence = (*loss.evidence, *_hidden(view, lost))
        of_idle = lost.wait_s / waited_s
        yield replace(
            loss,
            lost_s=loss.lost_s * of_idle,
            returnable_s=(loss.returnable_s or 0.0) * of_idle,
            evidence=evidence,
        )


def _causes(view: View) -> Iterator[_Loss]:
    """Yield what was waited for, whatever accelerators were at."""
    found = straggling(view)
    share_of_others = 1.0
    if found is not None:
        share_of_others = max(0.0, 1.0 - found.own_s / float(view.wait_s.sum()))
        yield _straggler(found)
    for cause, windows in causes_of_waits(view).items():
        lost_s = float(view.wait_s[windows].sum()) * share_of_others
        if lost_s:
            yield _Loss(
                cause=cause,
                lost_s=lost_s,
                returnable_s=returnable_s(view, windows) * share_of_others,
                evidence=reasons(cause, view, windows),
                answer=ANSWERS[cause],
                reads=_Reads(windows, _READS[cause]) if cause in _READS else None,
            )


def _straggler(found: Straggling) -> _Loss:
    return _Loss(
        cause=Cause.STRAGGLER,
        lost_s=found.lost_s,
        returnable_s=found.lost_s,
        evidence=found.evidence,
        answer=ANSWERS[Cause.STRAGGLER],
        hosts=tuple(dict.fromkeys(one.host for one in found.slow)),
        ranks=tuple(one.rank for one in found.slow if one.rank is not None),
    )


def _checkpoints(view: View, lost: _Lost) -> Iterator[_Loss]:
    """Yield what reads and saves of checkpoints were lost to."""
    read_s, save_s = lost.read_s, lost.save_s
    if not read_s + save_s:
        return
    at_once, told = _most_at_checkpoints(view), [*_at_checkpoints(view, lost)]
    if at_once >= least_storm_ranks(view.evidence, view.thresholds):
        cause, answer = Cause.CHECKPOINT_STORM, ANSWERS[Cause.CHECKPOINT_STORM]
        answer = answer if read_s >= save_s else SAVING
    elif read_s >= save_s and is_rtt_bound(view):
        cause, answer = Cause.RTT_BOUND, REMOTE_CHECKPOINT
        told.append(told_round_trips(view))
    else:
        return
    yield _Loss(
        cause=cause,
        lost_s=read_s + save_s,
        returnable_s=read_s + save_s,
        evidence=tuple(told),
        answer=answer,
        reads=_Reads(view.at_checkpoints_s > 0, (Kind.CHECKPOINT_READ, Kind.REQUEST)),
    )


def _most_at_checkpoints(view: View) -> float:
    """Return how many ranks read or saved a checkpoint at once, at most."""
    return float(ranks_at_checkpoints(view.evidence).max())


def _at_checkpoints(view: View, lost: _Lost) -> Iterator[str]:
    """Say how much time checkpoints took, and of how many ranks at once."""
    ranks = view.evidence.ranks
    at_once = f"up to {_most_at_checkpoints(view):.0f} of {ranks} ranks at once, "
    for what, spent_s in (("reading", lost.read_s), ("saving", lost.save_s)):
        if spent_s:
            yield (
                f"{at_once if ranks > 1 else ''}{seconds(spent_s)} in all for {what} checkpoints"
            )


_READING = (Kind.REQUEST, Kind.RETRIEVAL)
_READS = {
    Cause.CHECKPOINT_STORM: _READING,
    Cause.COLD_START: _READING,
    Cause.THRASH: _READING,
    Cause.CONGESTION: _READING,
    Cause.RTT_BOUND: _READING,
    Cause.STORAGE_BANDWIDTH_BOUND: _READING,
    Cause.METADATA_BOUND: (Kind.METADATA,),
}
"""What reads the files of a cause."""
