"""First look at a trace to be fitted: who is in it, and when checkpoints were read and saved."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.analysis.checkpoints import JOINED_NS
from headrace.analysis.columns import NULL, Coded, Columns, Floats, Ints, Mask
from headrace.analysis.named import Fold, NamedSums
from headrace.analysis.spans import Spans
from headrace.analysis.stretches import Union, united
from headrace.analysis.workload.model import TRANSFERS
from headrace.core.errors import CallerError
from headrace.trace.events import Kind, Phase

STRAGGLER_RATIO = 1.5
"""A host straggles whose loads take so many times the median of all hosts' means, or more …"""

STRAGGLER_DEVIATIONS = 5.0
"""… and its logarithm is so many standard deviations off, told by the median deviation."""

MOST_STRAGGLERS = 16
"""More hosts than that, or than a quarter of all, do not straggle: such are the hosts."""

_DEVIATIONS_TO_SIGMA = 1.4826
_MOST_STEPS = 1_048_576
_MOST_HOSTS = np.int64(2**24)


@dataclass(frozen=True, slots=True)
class Occasions:
    """When a transfer of all ranks took place; sorted by time [ns]."""

    begins: Ints
    ends: Ints
    steps: Ints
    """After which; :data:`NULL` where it is not named."""

    def of(self, moments: Ints) -> Ints:
        """Return the occasion that each moment is in or after; -1: before the first."""
        return np.searchsorted(self.begins, moments, side="right") - 1

    def overlap(self, begins: Ints, ends: Ints) -> Mask:
        """Tell which stretches of time have a moment in common with one of them."""
        if not self.begins.size:
            return np.zeros(begins.size, np.bool_)
        latest = np.maximum.accumulate(self.ends)
        last = np.searchsorted(self.begins, ends, side="left") - 1
        return (last >= 0) & (latest[np.maximum(last, 0)] > begins)

    def period_steps(self, step_ns: float, *, blocks: bool) -> int:
        """Return how many steps are between two, as the median says; 0 where there is one."""
        if self.begins.size < 2:
            return 0
        if (self.steps >= 0).all():
            return max(1, round(float(np.median(np.diff(self.steps)))))
        busy = (self.ends - self.begins)[:-1] if blocks else 0
        return max(1, round(float(np.median(np.diff(self.begins) - busy)) / step_ns))


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """Numbers steps through all epochs, also where each epoch begins anew with its first."""

    per_epoch: int = 0
    """Numbers that an epoch has; 0: they go on from one to the next."""

    def of(self, steps: Ints, epochs: Ints) -> Ints:
        """Return the numbers; those of steps that are not named are below 0."""
        return np.where((steps >= 0) & (epochs >= 0), steps + epochs * self.per_epoch, steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What the first look found."""

    job: str | None
    """Name; None where events name none."""

    hosts: HostNumbers

    places: Ints
    """Of all ranks, sorted; see :attr:`headrace.analysis.columns.Columns.places`."""

    ranks_per_host: int
    steps: int
    """Of the rank that has most."""

    has_steps: bool
    """Whether events are steps; else each load counts as one."""

    span_ns: int
    """From the first step, or load, to the end of the last."""

    steps_per_epoch: int
    step_numbers: StepNumbers
    unit: Literal["batch", "sample"] | None
    """Of loads; None where there are none."""

    stragglers: Mapping[int, float]
    """Number of a host → its mean load, as a multiple of the mean over hosts."""

    occasions: Mapping[str, Occasions]
    """By name of the transfer."""

    first_step_ns: int
    has_ranked_requests: bool
    """Whether requests name their rank; those that do not are then a server's."""


@dataclass
class _Loads:
    """Loads of one unit, by host."""

    spans: Spans = field(default_factory=Spans)
    sums: Floats = field(default_factory=lambda: np.zeros(0))
    counts: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, loads: Columns, hosts: Ints) -> None:
        self.spans.add(loads)
        known = hosts >= 0
        size = max(self.sums.size, int(hosts.max(initial=-1)) + 1)
        times = loads.operations[known]
        sums = np.bincount(hosts[known], weights=loads.durations[known], minlength=size)
        counts = np.bincount(hosts[known], weights=times, minlength=size)
        self.sums = np.pad(self.sums, (0, size - self.sums.size)) + sums
        self.counts = np.pad(self.counts, (0, size - self.counts.size)) + counts

    def stragglers(self) -> dict[int, float]:
        numbers = np.flatnonzero(self.counts)
        if numbers.size < 4:
            return {}
        means = self.sums[numbers] / self.counts[numbers]
        logs = np.log(np.maximum(means, 1.0))
        off = logs - np.median(logs)
        sigma = _DEVIATIONS_TO_SIGMA * float(np.median(np.abs(off)))
        slow = np.flatnonzero(off > max(math.log(STRAGGLER_RATIO), STRAGGLER_DEVIATIONS * sigma))
        if slow.size > min(MOST_STRAGGLERS, numbers.size // 4):
            return {}
        factors = means / means.mean()
        return {int(numbers[one]): float(factors[one]) for one in slow.tolist()}


class HostNumbers:
    """Numbers hosts from 0 on, as they are met."""

    def __init__(self) -> None:
        self._names = pa.array([], pa.string())

    def __len__(self) -> int:
        return len(self._names)

    def of(self, columns: Columns) -> Ints:
        """Return the number of each event's host; :data:`NULL` where it names none."""
        codes, values = columns.texts("host")
        new = values.filter(pc.invert(pc.is_in(values, self._names)))
        self._names = pa.concat_arrays([self._names, new])
        numbers = pc.index_in(values, self._names).to_numpy(zero_copy_only=False)
        return np.append(numbers.astype(np.int64), NULL)[codes]


class Survey:
    """Takes in the batches of a trace, once."""

    def __init__(self, job: str | None = None) -> None:
        self._job = job
        self._jobs: Counter[str | None] = Counter()
        self._hosts = HostNumbers()
        self._steps = Spans()
        self._loads = {"batch": _Loads(), "sample": _Loads()}
        self._epochs = NamedSums(("epoch",), {"first": "min", "last": "max"})
        self._named = {
            name: NamedSums(("epoch", "step"), _SPAN, most=_MOST_STEPS) for name in TRANSFERS
        }
        self._unnamed = {name: Union() for name in TRANSFERS}
        self._host_of_place: Ints = np.empty(0, np.int64)
        self._has_ranked_requests = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events."""
        whole = Columns(batch)
        for name in TRANSFERS:
            self._add_transfers(name, transfers(name, whole, self._job))
        for job, columns in of_job(whole, self._job).by("job"):
            steps, loads = columns.of(Kind.STEP).timed(), columns.of(Kind.LOAD).timed()
            self._jobs[job] += len(steps) + len(loads)
            self._add_steps(steps)
            self._add_loads(loads)
            requests = columns.of(Kind.REQUEST)
            self._has_ranked_requests |= bool((requests.numbers("rank") >= 0).any())

    def shape(self) -> Shape:
        """Return what was found.

        Raises:
            CallerError: there are neither steps nor loads, or several jobs have some.
        """
        job = self._only_job()
        has_steps = bool(self._steps.events)
        unit: Literal["batch", "sample"] | None = next(
            (name for name in ("batch", "sample") if self._loads[name].spans.events), None
        )
        spans = self._steps if has_steps else self._loads[unit or "batch"].spans
        numbers, steps_per_epoch = self._epochs_found()
        occasions = {name: self._occasions(name, numbers) for name in TRANSFERS}
        hosts = np.unique(self._host_of_place % _MOST_HOSTS).size
        return Shape(
            job=job,
            hosts=self._hosts,
            places=np.sort(spans.places),
            ranks_per_host=max(1, round(self._host_of_place.size / max(hosts, 1))),
            steps=spans.most_events,
            has_steps=has_steps,
            span_ns=spans.end_ns - spans.begin_ns,
            steps_per_epoch=steps_per_epoch,
            step_numbers=numbers,
            unit=unit,
            stragglers=self._loads[unit].stragglers() if unit else {},
            occasions=occasions,
            first_step_ns=spans.begin_ns,
            has_ranked_requests=self._has_ranked_requests,
        )

    def _add_steps(self, steps: Columns) -> None:
        self._steps.add(steps)
        self._note_hosts(steps)
        known = steps.where((steps.numbers("epoch") >= 0) & (steps.numbers("step") >= 0))
        numbers = known.numbers("step")
        self._epochs.add({"epoch": known.numbers("epoch"), "first": numbers, "last": numbers})

    def _add_loads(self, loads: Columns) -> None:
        self._note_hosts(loads)
        of_samples = loads.texts("sample").codes != NULL
        for unit, mask in (("batch", ~of_samples), ("sample", of_samples)):
            part = loads.where(mask)
            self._loads[unit].add(part, self._hosts.of(part))

    def _note_hosts(self, events: Columns) -> None:
        """Remember which ranks are on which host: one number for both."""
        pairs = events.places * _MOST_HOSTS + self._hosts.of(events) + 1
        self._host_of_place = np.union1d(self._host_of_place, pairs)

    def _add_transfers(self, name: str, events: Columns) -> None:
        steps = events.numbers("step")
        named, unnamed = events.where(steps >= 0), events.where(steps < 0)
        numbers = {key: named.numbers(key) for key in ("epoch", "step")}
        self._named[name].add({"begin": named.begins, "end": named.ends, **numbers})
        self._unnamed[name].add(np.zeros(len(unnamed), np.int64), unnamed.begins, unnamed.ends)

    def _occasions(self, name: str, numbers: StepNumbers) -> Occasions:
        table = self._named[name].table()
        named = {
            column: np.empty(0, np.int64) if table is None else table[column].to_numpy()
            for column in ("begin", "end", "step", "epoch")
        }
        together = united(self._unnamed[name].whole(), gap_ns=JOINED_NS)
        begins = np.concatenate((named["begin"], together.begins))
        ends = np.concatenate((named["end"], together.ends))
        of_named = numbers.of(named["step"], named["epoch"])
        steps = np.concatenate((of_named, np.full(together.begins.size, NULL)))
        order = np.argsort(begins, kind="stable")
        return Occasions(begins[order], ends[order], steps[order])

    def _epochs_found(self) -> tuple[StepNumbers, int]:
        """Return how steps are numbered, and how many an epoch has; 0: that is not known."""
        table = self._epochs.table()
        if table is None or table.num_rows < 2:
            return StepNumbers(), 0
        firsts, lasts = table["first"].to_numpy(), table["last"].to_numpy()
        if firsts.max() > lasts.min():
            return StepNumbers(), round(float(np.median(np.diff(np.sort(firsts)))))
        per_epoch = int(lasts.max()) - int(firsts.min()) + 1
        return StepNumbers(per_epoch), round(float(np.median(lasts - firsts))) + 1

    def _only_job(self) -> str | None:
        jobs = [job for job, events in self._jobs.items() if events]
        if not jobs:
            raise CallerError(
                "the trace has neither steps nor loads"
                + (f" of job {self._job}" if self._job else "")
                + "; a model is fitted to the trace of a training job"
            )
        if len(jobs) > 1:
            names = ", ".join(sorted(str(job) for job in jobs)[:10])
            raise CallerError(f"the trace has {len(jobs)} jobs; name one with --job: {names}")
        return jobs[0]


_SPAN: Mapping[str, Fold] = {"begin": "min", "end": "max"}
_KINDS = {
    "checkpoint_read": Kind.CHECKPOINT_READ,
    "checkpoint_save": Kind.CHECKPOINT_SAVE,
    "evaluation": Kind.CHECKPOINT_READ,
    "logits_write": Kind.LOGITS_WRITE,
}


def of_job(events: Columns, job: str | None) -> Columns:
    """Return the events of a job, or of all, that are not of an evaluation."""
    own = _of_name(events, job)
    return own.where(~_is(own.texts("phase"), Phase.EVALUATION))


def transfers(name: str, events: Columns, job: str | None) -> Columns:
    """Return the events of a transfer; an evaluation is also that of another job."""
    own = events if name == "evaluation" else _of_name(events, job)
    found = own.of(_KINDS[name]).timed()
    is_evaluation = _is(found.texts("phase"), Phase.EVALUATION)
    return found.where(is_evaluation if name == "evaluation" else ~is_evaluation)


def _of_name(events: Columns, job: str | None) -> Columns:
    return events if job is None else events.where(_is(events.texts("job"), job))


def _is(coded: Coded, text: str) -> Mask:
    """Return which rows of a column hold a text."""
    found = pc.index(coded.values, pa.scalar(text, pa.string())).as_py()
    equal: Mask = (coded.codes == found) & (found >= 0)
    return equal
