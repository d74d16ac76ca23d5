"""Fits a model of a workload to a trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from headrace.analysis.columns import Floats
from headrace.analysis.spreads import NS_PER_S
from headrace.analysis.workload.distributions import Constant
from headrace.analysis.workload.measurement import (
    LoadTallies,
    Measurement,
    RequestTallies,
    StepTallies,
)
from headrace.analysis.workload.model import (
    LONGEST_NAME,
    Files,
    Linked,
    Load,
    Model,
    Quantity,
    Requests,
    Transfer,
)
from headrace.analysis.workload.survey import Shape, Survey
from headrace.analysis.workload.tallies import Tally

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,12}$")
_LARGEST_ZIPF = 5.0


class Fitted(NamedTuple):
    """A model, and what there is to say about it."""

    model: Model
    notes: tuple[str, ...]


def fit_model(
    batches: Callable[[], Iterable[pa.RecordBatch]],
    *,
    name: str | None = None,
    source: str = "",
    job: str | None = None,
) -> Fitted:
    """Return the model that a trace follows.

    Args:
        batches: Returns the trace's events from the beginning; called twice.
        name: Of the model; the job's, if none is given.
        source: Where the trace is from, for people.
        job: Which one to fit, where the trace has several.

    Raises:
        CallerError: the trace has neither steps nor loads, or several jobs.
    """
    survey = Survey(job)
    for batch in batches():
        survey.add(batch)
    measurement = Measurement(survey.shape())
    for batch in batches():
        measurement.add(batch)
    return _fitted(measurement, name=name, source=source)


def _fitted(measured: Measurement, *, name: str | None, source: str) -> Fitted:
    shape = measured.shape
    ranks = shape.places.size
    blocking = {name: _blocks(measured, name) for name in measured.steps.interrupted}
    step = _step(measured.steps, shape, blocking)
    rank_steps = ranks * shape.steps
    usual = {"checkpoint_read": True, "evaluation": False}

    def transfer(name: str) -> Transfer | None:
        return _transfer(measured, name, step, blocks=(usual | blocking)[name])

    model = Model(
        version=1,
        name=(name or shape.job or "job")[:LONGEST_NAME],
        source=source,
        ranks=ranks,
        ranks_per_host=shape.ranks_per_host,
        steps=shape.steps,
        steps_per_epoch=shape.steps_per_epoch,
        step=step,
        wait=_wait(measured.waits, rank_steps),
        load=_load(measured.loads, shape, rank_steps),
        requests=_requests(measured.requests, rank_steps),
        checkpoint_read=transfer("checkpoint_read"),
        checkpoint_save=transfer("checkpoint_save"),
        evaluation=transfer("evaluation"),
        logits_write=transfer("logits_write"),
    )
    return Fitted(model, tuple(_notes(measured)))


def _notes(measured: Measurement) -> Iterable[str]:
    if not measured.shape.has_steps:
        yield "the trace tells no steps: each load of a rank counts as one, all equally long"
    if measured.requests.files.given_up:
        yield "files are too many to count each: the rarest are left out"


def _step(steps: StepTallies, shape: Shape, blocking: dict[str, bool]) -> Quantity:
    """Return a step's time, without those that something made longer."""
    if not shape.has_steps:
        mean_s = shape.span_ns / NS_PER_S / max(shape.steps, 1)
        return Quantity(distribution=Constant(mean=mean_s))
    whole = Tally()
    whole.merge(steps.clear)
    for name, tally in steps.interrupted.items():
        if not blocking[name] or not steps.clear.count:
            whole.merge(tally)
    return whole.quantity(NS_PER_S)


def _blocks(measured: Measurement, name: str) -> bool:
    """Tell whether steps are longer, or not there, while something is saved or written.

    Training goes on meanwhile if steps are there, and are longer by less than half of the time
    that saving takes.
    """
    steps = measured.steps
    within = steps.interrupted[name]
    occasions = measured.shape.occasions[name].begins.size
    seconds, _, ranks = measured.transfers[name].tallies()
    if 2 * within.count < occasions * ranks or not within.count:
        return True
    return bool(steps.clear.count) and within.mean > steps.clear.mean + seconds.mean / 2


def _wait(waits: Tally, rank_steps: int) -> Quantity | None:
    if not waits.count:
        return None
    return waits.quantity(NS_PER_S, zeros=max(rank_steps - waits.count, 0))


def _load(loads: LoadTallies, shape: Shape, rank_steps: int) -> Load | None:
    count = loads.seconds.count + loads.of_stragglers.count
    if shape.unit is None or not count:
        return None
    mean_ns = (loads.seconds.total + loads.of_stragglers.total) / count
    seconds = loads.seconds.quantity(NS_PER_S)
    scale = mean_ns / loads.seconds.mean if loads.seconds.total else 1.0
    sizes = loads.bytes.distribution()
    return Load(
        seconds=msgspec.structs.replace(seconds, distribution=seconds.distribution.scaled(scale)),
        unit=shape.unit,
        per_step=count / max(rank_steps, 1),
        stragglers=tuple(sorted(shape.stragglers.values(), reverse=True)),
        bytes=Linked(distribution=sizes, correlation=loads.sized.correlation) if sizes else None,
        parts={
            part.value: Linked(
                distribution=distribution.scaled(
                    loads.parts_ns[part] / NS_PER_S / count / distribution.average()
                ),
                correlation=loads.linked[part].correlation,
            )
            for part, tally in loads.parts.items()
            if (distribution := tally.distribution(NS_PER_S)) is not None
        },
    )


def _requests(requests: RequestTallies, rank_steps: int) -> Requests | None:
    seconds = requests.seconds.distribution(NS_PER_S)
    if seconds is None:
        return None
    return Requests(
        per_step=requests.seconds.count / max(rank_steps, 1),
        seconds=Linked(distribution=seconds, correlation=requests.sized.correlation),
        bytes=requests.bytes.distribution(),
        files=_files(requests),
    )


def _files(requests: RequestTallies) -> Files | None:
    table = requests.files.table()
    if table is None or not table.num_rows:
        return None
    reads = np.sort(table["reads"].to_numpy())[::-1].astype(np.float64)
    suffixes: Counter[str] = Counter()
    for file, count in zip(table["file"].to_pylist(), table["reads"].to_pylist(), strict=True):
        found = _SUFFIX.search(file)
        suffixes[found.group() if found else ""] += count
    return Files(count=reads.size, zipf=_zipf(reads), suffix=suffixes.most_common(1)[0][0])


def _zipf(reads: Floats) -> float:
    """Return the likeliest exponent, given how often each file was read, the most read first."""
    logs = np.log(np.arange(1, reads.size + 1))
    wanted = float(reads @ logs) / float(reads.sum())
    low, high = 0.0, _LARGEST_ZIPF
    for _ in range(40):
        middle = (low + high) / 2
        weights = np.exp(-middle * logs)
        if float(weights @ logs) / float(weights.sum()) > wanted:
            low = middle
        else:
            high = middle
    return low


def _transfer(measured: Measurement, name: str, step: Quantity, *, blocks: bool) -> Transfer | None:
    shape = measured.shape
    seconds, sizes, ranks = measured.transfers[name].tallies()
    if not seconds.count:
        return None
    occasions = shape.occasions[name]
    step_ns = max(step.distribution.average() * NS_PER_S, 1.0)
    is_first = name == "checkpoint_read"
    period = occasions.period_steps(step_ns, blocks=blocks) or shape.steps
    return Transfer(
        seconds=seconds.quantity(NS_PER_S),
        bytes=sizes.distribution(),
        period_steps=0 if is_first else max(period, 1),
        blocks=blocks,
        ranks=ranks if name == "evaluation" else None,
    )
