"""What a step trace says in a few numbers: stall, loading latency, throughput, where time went."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import CallerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentiles:
    """How a time is spread over the steps [s]."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSummary:
    """A trace in numbers. Sums and shares run over all ranks' steps."""

    ranks: int
    steps: int
    """Records: steps times ranks."""

    samples: int
    stall_share: float
    """Share of the ranks' time in which training stood still for data, 0 to 1."""

    samples_per_s: float
    """Rate of all ranks together, each at its own mean rate."""

    wait: Percentiles
    """How long training stood still for a batch."""

    load: Percentiles
    """How long a batch took to prepare, in the background."""

    step: Percentiles
    straggler_gap_s: float
    """Mean wait of the rank that waits most, minus the mean of all ranks [s]."""

    trainer_cpu_s_per_sample: float
    """CPU that loading took on trainers [s]."""

    read_s: float
    transform_s: float
    overhead_s: float
    bytes_wire: int
    bytes_storage: int
    samples_tensor: int
    samples_raw: int
    samples_hedged: int
    samples_local: int
    samples_substituted: int


def summarise(steps: pa.Table, *, skip: int = 0) -> StepSummary:
    """Return a trace's summary.

    Args:
        steps: Columns of ``StepRecord``, of one job, of any number of ranks.
        skip: First steps of each rank to leave out as warm-up.

    Raises:
        CallerError: nothing is left to summarise.
    """
    steps = _without_first(steps, skip)
    if not steps.num_rows:
        raise CallerError(
            f"the trace holds no step after the first {skip}; run longer, or skip fewer"
        )
    ranks, rank_of_row = np.unique(_column(steps, "rank"), return_inverse=True)
    seconds, samples = _column(steps, "step_s"), _column(steps, "samples")
    waits = _column(steps, "wait_s")
    waits_by_rank = _by_rank(waits, rank_of_row) / _by_rank(np.ones(waits.size), rank_of_row)
    rates = _by_rank(samples, rank_of_row) / np.maximum(_by_rank(seconds, rank_of_row), 1e-12)
    count = int(samples.sum())
    return StepSummary(
        ranks=ranks.size,
        steps=steps.num_rows,
        samples=count,
        stall_share=float(waits.sum() / max(seconds.sum(), 1e-12)),
        samples_per_s=float(rates.sum()),
        wait=percentiles(waits),
        load=percentiles(_column(steps, "load_s")),
        step=percentiles(seconds),
        straggler_gap_s=float(waits_by_rank.max() - waits_by_rank.mean()),
        trainer_cpu_s_per_sample=_sum(steps, "trainer_cpu_s") / max(count, 1),
        read_s=_sum(steps, "read_s"),
        transform_s=_sum(steps, "transform_s"),
        overhead_s=_sum(steps, "overhead_s"),
        bytes_wire=int(_sum(steps, "bytes_wire")),
        bytes_storage=int(_sum(steps, "bytes_storage")),
        samples_tensor=int(_sum(steps, "samples_tensor")),
        samples_raw=int(_sum(steps, "samples_raw")),
        samples_hedged=int(_sum(steps, "samples_hedged")),
        samples_local=int(_sum(steps, "samples_local")),
        samples_substituted=int(_sum(steps, "samples_substituted")),
    )


def percentiles(seconds: npt.NDArray[np.float64]) -> Percentiles:
    """Return how times are spread; percentiles are interpolated linearly. Not of nothing."""
    p50, p90, p99, most = np.percentile(seconds, (50, 90, 99, 100)).tolist()
    return Percentiles(mean_s=float(seconds.mean()), p50_s=p50, p90_s=p90, p99_s=p99, max_s=most)


def _without_first(steps: pa.Table, skip: int) -> pa.Table:
    """Leave out the first ``skip`` records of each rank, in the order of their steps."""
    if not skip or not steps.num_rows:
        return steps
    ranks, numbers = _column(steps, "rank"), _column(steps, "step")
    order = np.lexsort((numbers, ranks))
    sorted_ranks = ranks[order]
    begins = np.searchsorted(sorted_ranks, sorted_ranks)
    kept = np.arange(order.size) - begins >= skip
    return steps.take(pa.array(np.sort(order[kept])))


def _column(steps: pa.Table, name: str) -> npt.NDArray[np.float64]:
    column: npt.NDArray[np.float64] = steps[name].to_numpy().astype(np.float64)
    return column


def _sum(steps: pa.Table, name: str) -> float:
    total: float = pc.sum(steps[name]).as_py()
    return total


def _by_rank(
    values: npt.NDArray[np.float64], rank_of_row: npt.NDArray[np.intp]
) -> npt.NDArray[np.float64]:
    sums: npt.NDArray[np.float64] = np.bincount(rank_of_row, weights=values).astype(np.float64)
    return sums
