"""Moves the cut of each kind with what is measured, instead of with what headers let expect.

Pure arithmetic: no clock, no sockets. What was measured at a cut is kept as it is; cuts that
were never tried are estimated from headers, scaled by what was measured elsewhere. So under
constant conditions each cut is tried once at most, and after that only a truly cheaper one is
moved to: it does not swing. Nothing that decides depends on the cut itself: the bandwidth is that
of the link, and CPUs are judged by what others use of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.core.errors import ConfigError
from headrace.transform.explain import Running
from headrace.transform.program import Program
from headrace.transform.split import Premise, SplitPlan, Step, allowed_cuts, bytes_at, op_cpu


@dataclass(frozen=True, kw_only=True, slots=True)
class CuttingLimits:
    """How easily a cut moves."""

    margin: float = 0.15
    """Part of a sample's cost that another cut must save."""

    hold_s: float = 3.0
    """How long it must save that without a break [s]."""

    least_samples: int = 16
    """Samples at a cut, in one round, that tell what it costs."""

    least_link_bytes: int = 1 << 18
    """Bytes waited for that tell the bandwidth."""

    smoothing: float = 0.3
    """Weight of the newest round in a moving mean."""

    idle_trainer_price: float = 0.2
    """Worth of a CPU second of a trainer whose CPUs nobody else uses."""

    def __post_init__(self) -> None:
        if not 0 < self.margin < 1 or self.hold_s < 0 or not 0 < self.smoothing <= 1:
            raise ConfigError(
                f"cutting.margin={self.margin:g} must lie in (0, 1), cutting.smoothing="
                f"{self.smoothing:g} in (0, 1], cutting.hold_s={self.hold_s:g} must not be negative"
            )


@dataclass(slots=True)
class Sum:
    """Values added up."""

    count: int = 0
    total: float = 0.0

    def add(self, total: float, count: int = 1) -> None:
        """Add values."""
        self.count += count
        self.total += total

    @property
    def mean(self) -> float:
        """Return their mean; 0 of none."""
        return self.total / self.count if self.count else 0.0


Cell = tuple[str, int]
"""Media kind and cut."""


@dataclass(kw_only=True, slots=True)
class Seen:
    """What was measured in one round: sums."""

    wire_bytes: dict[Cell, Sum] = field(default_factory=dict)
    """Payload of samples that came at a cut [bytes]."""

    storage_s: dict[Cell, Sum] = field(default_factory=dict)
    """CPU time of agents to bring samples to a cut [s]."""

    trainer_s: dict[Cell, Sum] = field(default_factory=dict)
    """CPU time to finish samples from a cut here [s]."""

    link_bytes: float = 0.0
    """Bytes that were waited for while they came [bytes]."""

    link_s: float = 0.0
    """How long that was [s]."""

    carried: float = 0.0
    """Largest rate at which an answer came, from when its samples were made [B/s]."""

    trainer_busy: float | None = None
    """Part of the trainer's CPUs that others than the loader use; None: not known."""

    storage_spare: float = 1.0
    """Part of what agents can do at best that they can do now."""

    def shipped(self, cell: Cell, nbytes: int, storage_s: float) -> None:
        """Add a sample that came from an agent."""
        self.wire_bytes.setdefault(cell, Sum()).add(nbytes)
        self.storage_s.setdefault(cell, Sum()).add(storage_s)

    def finished(self, cell: Cell, cpu_s: float) -> None:
        """Add a sample that was finished here."""
        self.trainer_s.setdefault(cell, Sum()).add(cpu_s)

    def add(self, other: Seen) -> None:
        """Add another's sums to these."""
        for mine, others in (
            (self.wire_bytes, other.wire_bytes),
            (self.storage_s, other.storage_s),
            (self.trainer_s, other.trainer_s),
        ):
            for cell, value in others.items():
                mine.setdefault(cell, Sum()).add(value.total, value.count)
        self.link_bytes += other.link_bytes
        self.link_s += other.link_s
        self.carried = max(self.carried, other.carried)


@dataclass(frozen=True, kw_only=True, slots=True)
class CutCost:
    """What a sample of a kind costs at one cut."""

    cut: int
    wire_bytes: float
    storage_s: float
    """CPU time there [s]."""

    trainer_s: float
    """CPU time here, up to where batches take over [s]."""

    price: float
    """All of it, in CPU seconds of a busy trainer."""

    measured: bool
    """Samples came at this cut; else it is estimated."""


class MovingCut:
    """Where the chain of each kind is cut now. Not thread-safe.

    Args:
        program: The pipeline.
        plan: What was planned from headers.
        targets: Kind → cut at which batches take its samples; a cut never lies behind it.
        premise: What is assumed of what is not measured.
        limits: How easily cuts move.
    """

    def __init__(
        self,
        program: Program,
        plan: SplitPlan,
        targets: Mapping[str, int],
        premise: Premise | None = None,
        limits: CuttingLimits | None = None,
    ) -> None:
        self._assumed = premise or Premise()
        self._limits = limits or CuttingLimits()
        self.premise = self._assumed
        """What is assumed and measured of link and CPUs."""

        self.cuts = dict(plan.cuts)
        """Kind → cut."""

        self._chains = {
            kind: _Chain(steps, allowed_cuts(program, steps), targets[kind], self._limits)
            for kind, steps in plan.steps.items()
        }
        self._bandwidth: float | None = None
        self._waited = Sum()
        self._believed: float | None = None
        self._faster_at: float | None = None
        self._doubt_s = self._limits.hold_s
        self._beaten_at: dict[str, float] = {}

    @property
    def bandwidth(self) -> float | None:
        """Measured bandwidth of the link [B/s]; None: nothing was ever waited for."""
        return self._bandwidth

    def observe(self, seen: Seen, now: float) -> bool:
        """Take in a round of measurements; return whether a cut moved.

        Args:
            seen: What was measured since the round before.
            now: Monotonic time [s].
        """
        self._measure_link(seen, now)
        self.premise = self._premise(seen)
        for kind, chain in self._chains.items():
            chain.observe(kind, seen)
        moved = [self._move(kind, now) for kind in self._chains]
        return any(moved)

    def costs(self, kind: str) -> tuple[CutCost, ...]:
        """Return what each allowed cut of a kind costs, as far as it is known."""
        return self._chains[kind].costs(self.premise)

    def running(self, kind: str, cut: int) -> Running | None:
        """Return what was measured of a kind that is cut there; None: nothing was.

        Args:
            kind: The kind.
            cut: Where it is cut now.
        """
        costs = {cost.cut: cost for cost in self.costs(kind)}
        own = costs.get(cut)
        if own is None or not any(cost.measured for cost in costs.values()):
            return None
        others = [cost for cost in costs.values() if cost.cut != cut]
        return Running(
            cut=cut,
            measured=own.measured,
            storage_s=own.storage_s,
            trainer_s=own.trainer_s,
            wire_bytes=own.wire_bytes,
            bandwidth=self._bandwidth,
            why=_why(own, min(others, key=lambda cost: cost.price, default=None), self),
        )

    def _move(self, kind: str, now: float) -> bool:
        """Move a kind's cut if another one has been cheaper for long enough."""
        costs = {cost.cut: cost for cost in self.costs(kind)}
        own = costs.get(self.cuts[kind])
        best = min(costs.values(), key=lambda cost: (cost.price, cost.cut), default=None)
        if own is None or best is None or not own.measured:
            return False
        if best.price >= (1 - self._limits.margin) * own.price:
            self._beaten_at.pop(kind, None)
            return False
        if now - self._beaten_at.setdefault(kind, now) < self._limits.hold_s:
            return False
        del self._beaten_at[kind]
        self.cuts = {**self.cuts, kind: best.cut}
        return True

    def _measure_link(self, seen: Seen, now: float) -> None:
        """Follow the rate at which bytes came that were waited for.

        Bytes that came at once tell that a link may have become faster, but also a shaper lets
        some through. So that is believed after a while only, and later each time it was wrong.
        """
        before, waited = self._bandwidth, self._waited
        waited.add(seen.link_s, round(seen.link_bytes))
        if waited.count >= self._limits.least_link_bytes and waited.total > 0:
            self._bandwidth = _smoothed(before, waited.count / waited.total, 0.5)
            self._waited, self._faster_at = Sum(), None
            if self._believed is not None and self._bandwidth < self._believed / 2:
                self._believed, self._doubt_s = None, 2 * self._doubt_s
        elif before is None or seen.carried < 1.5 * before:
            self._faster_at = None if seen.carried else self._faster_at
        elif self._faster_at is None:
            self._faster_at = now
        elif now - self._faster_at >= self._doubt_s:
            self._bandwidth = self._believed = seen.carried
            self._faster_at = None

    def _premise(self, seen: Seen) -> Premise:
        known, before, idle = self._assumed, self.premise, self._limits.idle_trainer_price
        trainer_price = before.trainer_price
        if seen.trainer_busy is not None:
            price = known.trainer_price * (idle + (1 - idle) * min(seen.trainer_busy, 1.0))
            trainer_price = _smoothed(trainer_price, price, self._limits.smoothing)
        return replace(
            known,
            bandwidth=min(self._bandwidth or known.bandwidth, known.bandwidth),
            storage_price=min(known.storage_price / max(seen.storage_spare, 1e-3), 1.0),
            trainer_price=trainer_price,
        )


class _Chain:
    """The ops on one kind: what is known of each cut."""

    def __init__(
        self, steps: Sequence[Step], cuts: Iterable[int], target: int, limits: CuttingLimits
    ) -> None:
        self._cuts = tuple(cut for cut in cuts if cut <= target)
        self._limits = limits
        self._bytes = {cut: bytes_at(steps, cut) for cut in self._cuts}
        self._storage = _Side({cut: op_cpu(steps, 0, cut) for cut in self._cuts})
        self._trainer = _Side({cut: op_cpu(steps, cut, target) for cut in self._cuts})
        self._came: set[int] = set()

    def observe(self, kind: str, seen: Seen) -> None:
        least, smoothing = self._limits.least_samples, self._limits.smoothing
        for cut in self._cuts:
            shipped = seen.wire_bytes.get((kind, cut), Sum())
            if shipped.count >= least:
                known = self._bytes[cut] if cut in self._came else None
                self._bytes[cut] = _smoothed(known, shipped.mean, smoothing)
                self._storage.learn(cut, seen.storage_s[kind, cut].mean, smoothing)
                self._came.add(cut)
            finished = seen.trainer_s.get((kind, cut), Sum())
            if finished.count >= least:
                self._trainer.learn(cut, finished.mean, smoothing)

    def costs(self, premise: Premise) -> tuple[CutCost, ...]:
        storage, trainer = self._storage.scale, self._trainer.scale
        return tuple(
            self._cost(cut, premise, storage or trainer or 1.0, trainer or storage or 1.0)
            for cut in self._cuts
        )

    def _cost(self, cut: int, premise: Premise, storage: float, trainer: float) -> CutCost:
        storage_s, trainer_s = self._storage.at(cut, storage), self._trainer.at(cut, trainer)
        nbytes = self._bytes[cut]
        return CutCost(
            cut=cut,
            wire_bytes=nbytes,
            storage_s=storage_s,
            trainer_s=trainer_s,
            price=premise.price(trainer_s=trainer_s, wire_bytes=nbytes, storage_s=storage_s),
            measured=cut in self._came,
        )


class _Side:
    """Seconds that a sample takes on one side of the wire, for each cut."""

    def __init__(self, estimated: Mapping[int, float]) -> None:
        self._estimated = estimated
        self._measured: dict[int, float] = {}

    @property
    def scale(self) -> float | None:
        """How much slower than estimated it was; None: nothing was measured."""
        estimated = sum(self._estimated[cut] for cut in self._measured)
        return sum(self._measured.values()) / estimated if estimated else None

    def learn(self, cut: int, seconds: float, smoothing: float) -> None:
        self._measured[cut] = _smoothed(self._measured.get(cut), seconds, smoothing)

    def at(self, cut: int, scale: float) -> float:
        """Return what was measured at a cut, or the estimate times ``scale``."""
        return self._measured.get(cut, self._estimated[cut] * scale)


def _why(own: CutCost, next_best: CutCost | None, moving: MovingCut) -> str:
    """Return what speaks for a cut, against the best of the others."""
    premise = moving.premise
    link = "the link never made samples wait"
    if moving.bandwidth is not None:
        link = f"the link does {premise.bandwidth / 1e6:.3g} MB/s"
    prices = (
        f"a CPU second on storage counts {premise.storage_price:.2f}, on the trainer "
        f"{premise.trainer_price:.2f}"
    )
    if next_best is None:
        return f"no other cut is possible; {link}"
    share = next_best.price / own.price - 1 if own.price else 0.0
    other = "raw bytes" if next_best.cut == 0 else f"a cut behind op {next_best.cut - 1}"
    verdict = f"{abs(100 * share):.0f} % {'more' if share >= 0 else 'less'}"
    return f"{other} would cost {verdict}: {link}, {prices}"


def _smoothed(before: float | None, newest: float, weight: float) -> float:
    return newest if before is None else before + weight * (newest - before)
