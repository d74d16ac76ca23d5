"""Chooses, per kind of sample, how many ops storage runs: where the chain is cut.

A cut costs the trainer the ops behind it, and the network and the trainer the bytes at it.
The cheapest cut wins. An op that merely makes bytes of a value larger (the cast to float,
the normalisation) is never left to storage: it would be paid for on every wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.core.errors import ConfigError
from headrace.transform.op import BatchOp, Decoder, Framing, Op
from headrace.transform.program import Program
from headrace.transform.spec import Encoded, Spec

FIELD_OF_KIND = {"image": "image", "video": "video", "audio": "audio", "text": "text"}
"""Kind of sample → the field that holds most of its bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindProfile:
    """The typical sample of one kind in a dataset."""

    kind: str
    nbytes: float
    """Mean encoded length [bytes]."""

    samples: int = 0
    """How many there are; for tables, plays no part in a plan."""

    values: float = 1
    """Values of its field, such as the pictures of a document; all else is that of one of them."""

    width: float = 0
    height: float = 0
    frames: float = 1
    gops: float = 1
    duration_s: float = 0
    codec: str = ""
    """As in :class:`headrace.transform.spec.Encoded`."""

    @property
    def field(self) -> str:
        """Return the field that holds the sample's bytes."""
        return FIELD_OF_KIND.get(self.kind, self.kind)

    def spec(self) -> Encoded:
        """Return what goes into the pipeline: one value of the field."""
        return Encoded(
            nbytes=self.nbytes / self.values,
            width=self.width,
            height=self.height,
            frames=self.frames,
            gops=self.gops,
            duration_s=self.duration_s,
            codec=self.codec,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Premise:
    """What a plan assumes of the hosts. The default is storage with idle CPUs behind 10 GbE."""

    bandwidth: float = 1.25e9
    """From storage to the trainer host [B/s]."""

    receive_s_per_byte: float = 0.3e-9
    """Trainer CPU to receive one byte [s/B]; measured with HTTP on loopback."""

    storage_price: float = 0.05
    """Worth of a storage CPU second, in seconds of a busy trainer's CPU."""

    trainer_price: float = 1.0
    """Worth of a trainer CPU second, in those of a busy one: less where its CPUs idle."""

    def __post_init__(self) -> None:
        least = min(self.receive_s_per_byte, self.storage_price, self.trainer_price)
        if not self.bandwidth > 0 or least < 0:
            raise ConfigError(
                f"premise: bandwidth={self.bandwidth:g} B/s must be above 0, "
                f"receive_s_per_byte={self.receive_s_per_byte:g}, storage_price="
                f"{self.storage_price:g} and trainer_price={self.trainer_price:g} not negative"
            )

    def price(self, *, trainer_s: float, wire_bytes: float, storage_s: float) -> float:
        """Return what a sample costs, in seconds of a busy trainer's CPU.

        Args:
            trainer_s: CPU time on the trainer, without receiving [s].
            wire_bytes: What crosses the network [bytes].
            storage_s: CPU time on storage [s].
        """
        trainer_s += wire_bytes * self.receive_s_per_byte
        link_s = wire_bytes / self.bandwidth
        return trainer_s * self.trainer_price + link_s + storage_s * self.storage_price


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One op on the typical sample of a kind."""

    position: int
    op: Op
    acts: bool
    """The op acts on the sample's field; one that does not costs nothing and changes nothing."""

    joined: bool
    """The op is computed together with the decode before it, whose cost includes it."""

    values: float
    """Values of the field that a sample has."""

    cpu_s: float
    """Estimated CPU time for all of them [s]."""

    before: Spec
    """What goes in: one value."""

    after: Spec

    @property
    def bytes_before(self) -> float:
        """Mean length of all values before the op [bytes]."""
        return self.before.nbytes * self.values

    @property
    def bytes_after(self) -> float:
        """Mean length of all values after the op [bytes]."""
        return self.after.nbytes * self.values


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitPlan:
    """Where each kind's chain is cut, and why."""

    cuts: dict[str, int]
    """Kind → number of leading ops that storage runs."""

    steps: dict[str, tuple[Step, ...]]
    """Kind → estimates the choice was made from."""


def plan_split(
    program: Program, profiles: Iterable[KindProfile], premise: Premise | None = None
) -> SplitPlan:
    """Return the cut of each kind that costs the trainer and the network least."""
    premise = premise or Premise()
    steps = {profile.kind: estimate(program, profile) for profile in profiles}
    cuts = {kind: _cheapest_cut(program, chain, premise) for kind, chain in steps.items()}
    return SplitPlan(cuts=cuts, steps=steps)


def estimate(program: Program, profile: KindProfile) -> tuple[Step, ...]:
    """Return what each op does to the typical sample, in order; ops on batches included."""
    field = profile.field
    spec: Spec = profile.spec()
    steps: list[Step] = []
    joined_at: int | None = None
    for position, op in enumerate(program.ops):
        acts = field in op.fields
        joined = acts and position == joined_at
        cpu_s = _cost(program, position, spec, field) if acts and not joined else 0.0
        step = Step(
            position=position,
            op=op,
            acts=acts,
            joined=joined,
            values=profile.values,
            cpu_s=cpu_s * profile.values,
            before=spec,
            after=op.infer(spec) if acts else spec,
        )
        if acts and isinstance(op, Decoder):
            joined_at = program.framing_of(position, field)
        spec = step.after
        field = op.target(field) if acts else field
        steps.append(step)
    return tuple(steps)


def _cost(program: Program, position: int, spec: Spec, field: str) -> float:
    op = program.ops[position]
    if not isinstance(op, Decoder):
        return op.cost_s(spec)
    place = program.framing_of(position, field)
    framing = program.ops[place] if place is not None else None
    return op.decode_cost_s(spec, framing if isinstance(framing, Framing) else None)


def allowed_cuts(program: Program, steps: Sequence[Step]) -> tuple[int, ...]:
    """Return where a chain may be cut without shipping an op that only makes bytes larger."""
    return tuple(cut for cut in program.cuts if not _ships_growth(steps[:cut]))


def op_cpu(steps: Sequence[Step], start: int, stop: int | None = None) -> float:
    """Return the estimated CPU time of the ops from ``start`` to ``stop`` on one sample [s].

    Ops that join samples are left out: they run on the trainer, whatever the cut.
    """
    return sum(step.cpu_s for step in steps[start:stop] if not isinstance(step.op, BatchOp))


def _cheapest_cut(program: Program, steps: Sequence[Step], premise: Premise) -> int:
    allowed = allowed_cuts(program, steps)
    return min(allowed, key=lambda cut: (_price(steps, cut, premise), cut))


def _ships_growth(steps: Sequence[Step]) -> bool:
    return any(step.acts and step.op.grows for step in steps)


def _price(steps: Sequence[Step], cut: int, premise: Premise) -> float:
    return premise.price(
        trainer_s=op_cpu(steps, cut),
        wire_bytes=bytes_at(steps, cut),
        storage_s=op_cpu(steps, 0, cut),
    )


def bytes_at(steps: Sequence[Step], cut: int) -> float:
    """Return the mean length of a sample's field at a cut [bytes]."""
    if not steps:
        return 0.0
    return steps[cut].bytes_before if cut < len(steps) else steps[-1].bytes_after
