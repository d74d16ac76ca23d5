"""One comparison on the cluster: its premise, its segments, and what the hosts used. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.measuring import Spread, spread
from bench.offload.counters import AGENTS, BACKGROUND, DATANODES, STORAGE, Use, added
from bench.offload.premise import Premise
from headrace.demo.comparison import Comparison
from headrace.demo.outcome import Segment, figures

RATIOS = ("stall", "p99", "trainer_cpu", "throughput")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Both loaders under one premise."""

    premise: Premise
    comparison: Comparison
    use: tuple[Use, ...]
    """What the hosts used during each segment's counted steps."""

    def of(self, mode: str) -> list[tuple[Segment, Use]]:
        """Return one loader's segments: ``torch`` or ``headrace``."""
        both = zip(self.comparison.segments, self.use, strict=True)
        return [(segment, use) for segment, use in both if segment.plan.mode == mode]

    def ratios(self) -> dict[str, Spread]:
        """Return headrace / baseline, over the pairs of segments."""
        return {
            name: spread([getattr(one, name) for one in self.comparison.repeats]) for name in RATIOS
        }


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """How one loader did, over its segments."""

    steps: int
    samples: int
    stall_share: Spread
    """Share of the loop's time spent waiting for data."""

    wait_mean_s: Spread
    """Stall per step [s]."""

    wait_p50_s: Spread
    wait_p99_s: Spread
    wait_max_s: Spread
    trainer_cpu_s_per_sample: Spread
    """CPU of the trainer's processes spent on loading, per sample [s]."""

    samples_per_s: Spread
    trainer_bytes_per_sample: Spread
    """Received by the trainer host, all traffic [bytes]."""

    storage_cpu_s_per_sample: dict[str, Spread]
    """``agents``, ``datanodes``, ``background`` and ``storage`` (all) → CPU of the storage hosts
    per sample delivered meanwhile [s]."""

    samples_prepared: int
    samples_raw: dict[str, int]
    """Why agents sent samples raw → how many, warm-up included."""

    samples_hedged: int
    samples_local: int
    samples_substituted: int


def side(parts: Sequence[tuple[Segment, Use]]) -> Side:
    """Sum up one loader's segments."""
    each = [figures([segment]) for segment, _ in parts]
    whole = figures([segment for segment, _ in parts])
    uses = [use for _, use in parts]
    return Side(
        steps=whole.steps,
        samples=whole.samples,
        stall_share=spread([one.stall_share for one in each]),
        wait_mean_s=spread([one.wait_mean_s for one in each]),
        wait_p50_s=spread([one.wait_p50_s for one in each]),
        wait_p99_s=spread([one.wait_p99_s for one in each]),
        wait_max_s=spread([max(step.wait_s for step in part.counted) for part, _ in parts]),
        trainer_cpu_s_per_sample=spread([one.trainer_cpu_s_per_sample for one in each]),
        samples_per_s=spread([one.samples_per_s for one in each]),
        trainer_bytes_per_sample=spread(
            [use.trainer_bytes / one.samples for use, one in zip(uses, each, strict=True)]
        ),
        storage_cpu_s_per_sample={
            group: spread(
                [use.cpu_s[group] / one.samples for use, one in zip(uses, each, strict=True)]
            )
            for group in (AGENTS, DATANODES, BACKGROUND, STORAGE)
        },
        samples_prepared=whole.samples_prepared,
        samples_raw=whole.raw_reasons,
        samples_hedged=whole.samples_hedged,
        samples_local=whole.samples_local,
        samples_substituted=whole.samples_substituted,
    )


def busy_share(trial: Trial, mode: str) -> float:
    """Return the share of the storage hosts' quota that was used while a loader ran."""
    use = added([use for _, use in trial.of(mode)])
    return use.cores(STORAGE) / trial.premise.quotas.all_storage
