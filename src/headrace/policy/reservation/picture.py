"""What one host's figures look like over the last iterations: the input of a diagnosis."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice, pairwise
from math import sqrt
from operator import mul

from headrace.policy.reservation.events import Indicators
from headrace.policy.reservation.health import Health, filled
from headrace.policy.reservation.usual import Usual

_RISING = 0.02
_SHALLOW = 0.5
_FULL = 90.0
_HITS_BETTER = 0.02
_HITS_WORSE = 0.005
_HITS_IN_NEED = 0.001
_AS_USUAL = 0.95
_WARM = 0.9
_LONGEST_COLD = 2000
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """One host's figures, the newest ones and over a window, beside what is usual for it."""

    iteration: int
    settled: bool
    """Since it started, the cache has come to do as well as is usual, or was given long enough."""

    known: bool
    """It settled before, in this run or an earlier one: what is usual is known."""

    hits_rise: bool
    """The second half of the window has more hits than the first."""

    hit_rate: float
    hits_mean: float
    hits_over_usual: float
    """The window's mean over the usual hit rate."""

    swung: float
    """The most that the hit rate swung beyond the usual since it was last as usual."""

    latency_ratio: float
    """I/O latency without the wait for its own quota, over the usual one."""

    latency_swing: float
    """That ratio's standard deviation over its mean, over the window."""

    low_for: int
    """Iterations in a row whose queue was less than half full."""

    depth_against_nic: float
    """Correlation of queue depth and the network card's rate over the window, -1 to 1."""

    remote_share: float
    """Bytes received from the network over bytes read; 1 where nothing was read."""

    queued: float
    """Part of a batch's preparation that was waiting behind others, over the window."""

    usual_queued: float
    throttled: float
    """Part of an I/O's time that it waited for its own quota, over the window."""

    cpu: float
    """Part of a batch's preparation that was work of the CPU."""


class Album:
    """Keeps the last ``window`` iterations of one host and learns what is usual for it."""

    def __init__(self, window: int, hits_window: int) -> None:
        self._hits: deque[float] = deque(maxlen=hits_window)
        self._ratios: deque[float] = deque(maxlen=window)
        self._fills: deque[float] = deque(maxlen=window)
        self._rates: deque[float] = deque(maxlen=window)
        self._queues: deque[float] = deque(maxlen=window)
        self._throttles: deque[float] = deque(maxlen=window)
        self._latency = Usual(less_is_better=True)
        self._hit_rate = Usual(
            less_is_better=False, better=_HITS_BETTER, worse=_HITS_WORSE, in_need=_HITS_IN_NEED
        )
        self._swing = Usual(less_is_better=True)
        self._queued = Usual(less_is_better=True)
        self._windows = (
            self._hits,
            self._ratios,
            self._fills,
            self._rates,
            self._queues,
            self._throttles,
        )
        self._iteration = -1
        self._settled = False
        self._known = False
        self._swung = 0.0
        self._low_for = 0

    def add(self, indicators: Indicators, health: Health) -> None:
        """Take in one iteration; one that is earlier than the last begins a new run."""
        if indicators.iteration < self._iteration:
            self._begin_again()
        self._iteration = indicators.iteration
        keeps_up = health.queue >= _FULL
        fill = filled(indicators)
        free_s = indicators.io_latency_s * (1.0 - indicators.throttled_share)
        if free_s > 0:
            self._latency.observe(free_s, keeps_up=keeps_up)
        self._hits.append(indicators.hit_rate)
        self._ratios.append(self._latency.ratio(free_s))
        self._fills.append(fill)
        self._rates.append(indicators.nic_bytes_per_s)
        self._queues.append(indicators.queue_share * (1.0 - indicators.transform_share))
        self._throttles.append(indicators.throttled_share)
        self._queued.observe(_mean(self._queues), keeps_up=keeps_up)
        self._low_for = self._low_for + 1 if fill < _SHALLOW else 0
        self._learn_hits(keeps_up=keeps_up)
        self._settle(keeps_up=keeps_up)

    def _learn_hits(self, *, keeps_up: bool) -> None:
        hits, swing = _mean(self._hits), _swing(self._hits)
        if self._settled or hits > (self._hit_rate.value or 0.0):
            self._hit_rate.observe(hits, keeps_up=keeps_up)
        if self._settled:
            self._swing.observe(swing, keeps_up=keeps_up)
        if self._hit_rate.ratio(hits) >= _AS_USUAL:
            self._swung = 0.0
        if len(self._hits) == self._hits.maxlen:
            self._swung = max(self._swung, swing - (self._swing.value or 0.0))

    def picture(self, indicators: Indicators) -> Picture:
        """Return the view of the iteration that was added last."""
        hits = _mean(self._hits)
        ratio_mean, ratio_variance = _moments(self._ratios)
        read = indicators.read_bytes_per_s
        return Picture(
            iteration=indicators.iteration,
            settled=self._settled,
            known=self._known,
            hits_rise=self._hits_rise(),
            hit_rate=indicators.hit_rate,
            hits_mean=hits,
            hits_over_usual=self._hit_rate.ratio(hits),
            swung=self._swung,
            latency_ratio=self._ratios[-1],
            latency_swing=sqrt(ratio_variance) / ratio_mean if ratio_mean else 0.0,
            low_for=self._low_for,
            depth_against_nic=_correlation(self._fills, self._rates),
            remote_share=min(1.0, indicators.nic_bytes_per_s / read) if read else 1.0,
            queued=_mean(self._queues),
            usual_queued=self._queued.value or 0.0,
            throttled=_mean(self._throttles),
            cpu=indicators.transform_share,
        )

    def _begin_again(self) -> None:
        """Forget the run before, but not what is usual for the host."""
        for window in self._windows:
            window.clear()
        self._settled = False
        self._swung = 0.0
        self._low_for = 0

    def _settle(self, *, keeps_up: bool) -> None:
        """Decide whether the run has left its beginning behind.

        A run whose hits were never better is judged by its queue, for nothing else is known.
        After ``_LONGEST_COLD`` iterations what the cache does is what it can do.
        """
        if self._settled or len(self._hits) < (self._hits.maxlen or 0):
            return
        hits = _mean(self._hits)
        if self._iteration >= _LONGEST_COLD:
            self._hit_rate.value = hits
            self._settled = True
        warm = self._hit_rate.ratio(hits) >= _WARM
        self._settled |= warm and keeps_up and not self._hits_rise()
        self._known |= self._settled

    def _hits_rise(self) -> bool:
        half = len(self._hits) // 2
        if half == 0:
            return False
        first = sum(islice(self._hits, half)) / half
        second = sum(islice(self._hits, half, None)) / (len(self._hits) - half)
        return second > first + _RISING


def _mean(values: deque[float]) -> float:
    return sum(values) / len(values)


def _swing(values: deque[float]) -> float:
    """Return half the mean square of the steps between values, but for the largest.

    A variance that neither a trend adds to nor a single step, as there is at an epoch's end.
    """
    squares = sorted([(after - before) ** 2 for before, after in pairwise(values)])[:-1]
    return 0.5 * sum(squares) / len(squares) if squares else 0.0


def _moments(values: deque[float]) -> tuple[float, float]:
    """Return mean and variance."""
    mean = sum(values) / len(values)
    return mean, max(0.0, sum(map(mul, values, values)) / len(values) - mean * mean)


def _correlation(left: deque[float], right: deque[float]) -> float:
    """Return Pearson's correlation; 0 where either does not vary, but for rounding."""
    left_mean, left_variance = _moments(left)
    right_mean, right_variance = _moments(right)
    scale = sqrt(left_variance) * sqrt(right_variance)
    if scale <= _ROUNDING * (left_mean * right_mean):
        return 0.0
    covariance: float = sum(map(mul, left, right)) / len(left) - left_mean * right_mean
    return min(1.0, max(-1.0, covariance / scale))
