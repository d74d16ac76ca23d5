"""Verdicts on modelled jobs, several at a time."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import count
from multiprocessing import get_context
from typing import NamedTuple

import pyarrow as pa

from bench.diagnosis.cases import COMBINATIONS, INJECTIONS, labelled
from bench.diagnosis.model import run
from bench.diagnosis.scoring import Verdict
from headrace.analysis.analyser import Analyser
from headrace.analysis.causes import Cause
from headrace.trace.importer import Notes

LEAST_LOST = 0.04
"""Share of the ranks' time that a cause must cost, beyond what is lost without it, to count as
true: twice what a finding asks for."""

MOST_LOST = 0.01
"""The same up to which a cause counts as false, and a job as one that lost nothing. What lies
between is drawn anew."""

FIRST_SEED = 50_000_000
"""Of the scored jobs; the rules were made on others."""

APART = 1000
"""Seeds between jobs; one that does not count is drawn anew with the next."""


def verdicts(jobs: int, *, of_pairs: int, first_seed: int = FIRST_SEED) -> tuple[Verdict, ...]:
    """Return a verdict for so many jobs of each cause, and of each combination of two."""
    single: list[tuple[Cause, ...]] = [(cause,) for cause in INJECTIONS]
    kinds = [*single, *COMBINATIONS]
    tasks = [
        (first_seed + APART * job, true)
        for job in range(jobs)
        for true in (kinds if job < of_pairs else single)
    ]
    with ProcessPoolExecutor(
        len(os.sched_getaffinity(0)), mp_context=get_context("forkserver")
    ) as pool:
        return tuple(pool.map(verdict, *zip(*tasks, strict=True), chunksize=len(kinds)))


def verdict(seed: int, causes: tuple[Cause, ...]) -> Verdict:
    """Draw a job for which the truth is plain, and return what is said of it."""
    for drawn in count(seed):
        if _is_plain(drawn, causes):
            return Verdict(drawn, causes, named(run(labelled(drawn, causes)).events()))
    raise AssertionError("seeds do not end")


def named(*batches: pa.RecordBatch) -> tuple[Cause, ...]:
    """Return the causes that an analysis finds."""
    analyser = Analyser()
    for batch in batches:
        analyser.add(batch)
    found = analyser.result(format_name="modelled", notes=Notes()).findings
    return tuple(Cause(one.cause) for one in found)


def _is_plain(seed: int, causes: tuple[Cause, ...]) -> bool:
    """Tell whether each cause costs much, and nothing is lost without them.

    It must do so alone, and besides the others.
    """
    healthy = _lost(seed, ())
    if healthy.data_s + healthy.checkpoint_s >= MOST_LOST * healthy.ranks_s:
        return False
    return all(_costs(seed, (cause,), cause) and _costs(seed, causes, cause) for cause in causes)


def _costs(seed: int, causes: tuple[Cause, ...], cause: Cause) -> bool:
    """Tell whether one of the causes costs much: checkpoints if it is a storm, else waits."""
    found = _lost(seed, causes)
    if cause is Cause.NONE:
        return found.data_s + found.checkpoint_s < MOST_LOST * found.ranks_s
    without = _lost(seed, tuple(one for one in causes if one is not cause))
    data_s, checkpoint_s = found.data_s - without.data_s, found.checkpoint_s - without.checkpoint_s
    lost_s = checkpoint_s if cause is Cause.CHECKPOINT_STORM else data_s
    return lost_s >= LEAST_LOST * found.ranks_s


class _Lost(NamedTuple):
    data_s: float
    checkpoint_s: float
    ranks_s: float


@lru_cache(maxsize=64)
def _lost(seed: int, causes: tuple[Cause, ...]) -> _Lost:
    """Return what a job loses with these causes."""
    found = run(labelled(seed, causes))
    return _Lost(found.waited_s, found.checkpoint_s, found.ranks_s)
