"""A job's evidence as a diagnosis looks at it: windows of some steps, with what is usual."""

from __future__ import annotations

from math import ceil

import numpy as np

from headrace.analysis.columns import Floats, Mask
from headrace.analysis.evidence import JobEvidence
from headrace.analysis.thresholds import Thresholds
from headrace.analysis.windows import History, Quantity

METADATA, STORAGE, TRANSFORMATION, OVERHEAD, UNTOLD = range(5)
"""Parts of loading; the last is what a trace without parts does not tell of loads."""


class View:
    """Arrays are ``[windows]`` unless said otherwise; what is not known is NaN."""

    def __init__(self, evidence: JobEvidence, thresholds: Thresholds) -> None:
        self.evidence, self.thresholds = evidence, thresholds
        self.steps = evidence.history.total(Quantity.WAITS) / max(evidence.ranks, 1)
        self.history = _divided(evidence, self.steps, thresholds)
        self.wait_s = self._of(Quantity.WAIT_S)
        self.rank_s = evidence.ranks * self.history.width_s
        """Time of all ranks in one window [s]."""

        self.is_waiting: Mask = self.wait_s >= thresholds.waiting * self.rank_s
        self.loads = self._of(Quantity.LOADS)
        self.parts = self._parts()
        """Seconds of each part ``[parts, windows]``."""

        self.is_explained: Mask = _smoothed(
            self.parts.sum(axis=0)
        ) >= thresholds.explained * _smoothed(self.wait_s)
        """Where as much was loaded as waits for it can come from."""

        self.read_bytes, self.cost = self._reading()
        """Bytes that were read, and seconds per byte."""

        self.hit_rate = self._hit_rate()
        """Share of reads that a cache held; of bytes where the trace tells bytes."""

        self.is_standing = self._standing()
        """Where ranks were at a checkpoint, and the loop took hardly any batch."""

        self.usual_cost = self._usual_cost()
        self.usual_hit_rate = self._usual_hit_rate()
        self.is_slower: Mask = self.cost >= thresholds.slower * self.usual_cost
        self.has_fewer_hits: Mask = self.hit_rate <= thresholds.fewer_hits * (
            self.usual_hit_rate if self.usual_hit_rate >= thresholds.has_cache else np.nan
        )
        self.is_slower_by_misses = self._slower_by_misses()
        """Where reading is slower because of more misses rather than because each takes longer."""

        self.is_begun = self._begun()
        """Where the queue had no time to fill since a start."""

        self.is_after_start = self._after_starts()
        """The same, and what follows it without a window in which all is as usual."""

        self.is_storm = self._storm()
        """Where many ranks read or save a checkpoint at once."""

    @property
    def at_checkpoints_s(self) -> Floats:
        """How long ranks read or saved a checkpoint [s]."""
        return self._of(Quantity.CHECKPOINT_READ_S) + self._of(Quantity.CHECKPOINT_SAVE_S)

    @property
    def tells_parts(self) -> bool:
        """Whether the trace says what loads spend their time on."""
        return bool(self.parts.any())

    @property
    def calm(self) -> Mask:
        """Windows in which the loop went on and did not wait; all false if they loaded too little.

        What counts is how much was loaded in them, for windows of waits are more the longer they
        are. While the loop stands at a checkpoint its queue is full, whatever storage gives.
        """
        calm = ~self.is_waiting & self._is_active & ~self.is_standing
        enough = self.loads[calm].sum() >= self.thresholds.calm_loads * self.loads.sum()
        return calm if enough and calm.any() else np.zeros_like(calm)

    @property
    def is_mostly_calm(self) -> bool:
        """Whether the job did not wait in more than half of its windows."""
        return 2 * int(self.calm.sum()) > int(self._is_active.sum())

    def blamed_parts(self) -> Floats:
        """Return seconds of each part, around each window, beyond the usual while nothing waits.

        Neighbours count as well: parts of one load may lie in two windows.
        """
        usual = np.zeros(len(self.parts))
        calm = self.calm
        per_load = self.parts / np.maximum(self.loads, 1.0)
        if calm.any():
            usual = np.median(per_load[:, calm], axis=1)
        excess = np.maximum(per_load - usual[:, None], 0.0) * np.maximum(self.loads, 1.0)
        slight = excess.sum(axis=0) < 0.1 * self.parts.sum(axis=0)
        return np.apply_along_axis(_smoothed, 1, np.where(slight, self.parts, excess))

    def mean_read(self) -> tuple[float, float]:
        """Return bytes and duration [s] of a read on average; NaN where bytes are not told."""
        for nbytes, taken_s, count in (
            (Quantity.READ_BYTES, Quantity.READ_S, Quantity.READS),
            (Quantity.RETRIEVAL_BYTES, Quantity.RETRIEVAL_S, Quantity.RETRIEVALS),
        ):
            read, reads = self.history.total(nbytes), self.history.total(count)
            if read and reads:
                return read / reads, self.history.total(taken_s) / reads
        return np.nan, np.nan

    @property
    def _factor(self) -> int:
        return round(self.history.width_s / self.evidence.history.width_s)

    def _of(self, quantity: Quantity) -> Floats:
        return self.history.of(quantity)

    def _parts(self) -> Floats:
        """Return the parts; requests are the reading where no retrieval is told."""
        retrieval, metadata = self._of(Quantity.RETRIEVAL_S), self._of(Quantity.METADATA_S)
        transformation, overhead = (
            self._of(Quantity.TRANSFORMATION_S),
            self._of(Quantity.OVERHEAD_S),
        )
        storage = retrieval if retrieval.any() else self._of(Quantity.READ_S)
        untold = np.zeros(len(storage))
        if not (retrieval.any() or transformation.any()):
            untold = np.maximum(self._of(Quantity.LOAD_S) - metadata - storage - overhead, 0.0)
        parts = np.stack((metadata, storage, transformation, overhead, untold))
        return _filled(np.where(parts.any(axis=0), parts, np.nan))

    def _reading(self) -> tuple[Floats, Floats]:
        read_s, nbytes = self._of(Quantity.READ_S), self._of(Quantity.READ_BYTES)
        if not nbytes.any():
            read_s, nbytes = self._of(Quantity.RETRIEVAL_S), self._of(Quantity.RETRIEVAL_BYTES)
        return nbytes, _filled(_over(read_s, nbytes))

    def _usual_cost(self) -> float:
        """Return what is usual: of the faster half of calm windows, else of the fastest.

        What is read while the loop stands is of the checkpoint.
        """
        calm = self.calm
        if calm.any():
            return _quantile(self.cost[calm], 0.25)
        return _quantile(self.cost[self._is_active & ~self.is_standing], 0.1)

    def _usual_hit_rate(self) -> float:
        """Return what is usual: of the better half of calm windows, else of the best."""
        calm = self.calm
        if calm.any():
            return _quantile(self.hit_rate[calm], 0.75)
        return _quantile(_smoothed(self.hit_rate), 0.95)

    def _hit_rate(self) -> Floats:
        told = self._of(Quantity.CACHED_OF_BYTES)
        if told.any():
            return _filled(_over(self._of(Quantity.CACHED_BYTES), told))
        sampled = self.evidence.hit_rates
        if sampled is None:
            return np.full(len(self.wait_s), np.nan)
        reads, hits = (_joined(one, self._factor) for one in sampled)
        return _filled(_over(hits, reads))

    def _slower_by_misses(self) -> Mask:
        """Return where more misses make up at least as large a factor as all else does.

        Bytes that miss take the time, so twice the misses cost twice the time.
        """
        more_misses = (1.0 - self.hit_rate) / max(1.0 - self.usual_hit_rate, 1e-3)
        slower: Mask = more_misses**2 * self.usual_cost >= self.cost
        return slower

    def _begun(self) -> Mask:
        steps_per_window = self.steps / len(self.wait_s)
        begun = ceil(self.thresholds.begun_steps / max(steps_per_window, 1e-9))
        starts = self._of(Quantity.STARTS) > 0
        starts[np.flatnonzero(self._is_active)[:1]] = True
        fresh, left = np.zeros(len(starts), np.bool_), 0
        for window, (start, active) in enumerate(zip(starts, self._is_active, strict=True)):
            left = begun if start else left
            fresh[window] = left > 0
            left -= bool(active)
        return fresh

    def _after_starts(self) -> Mask:
        after = self.is_begun.copy()
        waits_for_a_time = self.is_waiting & self.calm.any()
        goes_on = waits_for_a_time | self.is_slower | self.has_fewer_hits
        has_held = ~self.has_fewer_hits & ~self.is_begun
        held = False
        for window in range(1, len(after)):
            held = after[window - 1] and (held or has_held[window - 1])
            is_lost_again = held and self.has_fewer_hits[window]
            after[window] |= after[window - 1] and goes_on[window] and not is_lost_again
        return after

    @property
    def _is_active(self) -> Mask:
        active: Mask = self.loads + self.wait_s > 0
        return active

    def _standing(self) -> Mask:
        steps = self._of(Quantity.WAITS)
        at_checkpoint = self.at_checkpoints_s > 0
        usual = _quantile(steps[self._is_active & ~at_checkpoint], 0.5)
        standing: Mask = at_checkpoint & (steps < self.thresholds.standing * usual)
        return standing

    def _storm(self) -> Mask:
        at_once = ranks_at_checkpoints(self.evidence)
        is_storm = at_once >= least_storm_ranks(self.evidence, self.thresholds)
        return _joined(is_storm.astype(np.float64), self._factor) > 0


def ranks_at_checkpoints(evidence: JobEvidence) -> Floats:
    """Return how many ranks read or save a checkpoint at once, by window of the evidence."""
    history = evidence.history
    lasting_s = history.of(Quantity.CHECKPOINT_READ_S) + history.of(Quantity.CHECKPOINT_SAVE_S)
    at_once: Floats = lasting_s / history.width_s
    return at_once


def least_storm_ranks(evidence: JobEvidence, thresholds: Thresholds) -> float:
    """Return how many ranks at once are a storm."""
    return max(thresholds.storm_ranks, 0.5 * evidence.ranks)


def _divided(evidence: JobEvidence, steps: float, thresholds: Thresholds) -> History:
    """Return the history in windows of some steps, and some loads, each.

    Parts of a load may be told as if they began with it, so windows shorter than loads would tear
    them apart.
    """
    wanted = steps / thresholds.window_steps
    history = evidence.history
    if loads := history.total(Quantity.LOADS):
        load_s = history.total(Quantity.LOAD_S) / loads
        wanted = min(wanted, evidence.span_s / max(thresholds.window_loads * load_s, 1e-9))
    windows = min(max(wanted, thresholds.least_windows), thresholds.most_windows)
    factor = max(1, round(len(evidence.history.sums) / windows))
    return evidence.history.coarser(factor)


def _filled(values: Floats) -> Floats:
    """Return values of windows in which no load ended as those of the next in which one did.

    A wait is for the load that ends with it.
    """
    known = ~np.isnan(values if values.ndim == 1 else values[0])
    if not known.any():
        return np.zeros_like(values) if values.ndim > 1 else values
    places = np.flatnonzero(known)
    nexts = np.minimum(np.searchsorted(places, np.arange(known.size)), places.size - 1)
    filled: Floats = values[..., places[nexts]]
    return filled


def _smoothed(values: Floats) -> Floats:
    """Return means with the neighbours on both sides, so that no lucky window stands out."""
    padded = np.pad(values, 1, mode="edge")
    means: Floats = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    return means


def _joined(values: Floats, factor: int) -> Floats:
    padded = np.pad(values, (0, -len(values) % factor))
    joined: Floats = padded.reshape(-1, factor).sum(axis=1)
    return joined


def _over(above: Floats, below: Floats) -> Floats:
    ratio: Floats = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
    return ratio


def _quantile(values: Floats, share: float) -> float:
    """Return a quantile of what is known; NaN where nothing is."""
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if known.size else np.nan
