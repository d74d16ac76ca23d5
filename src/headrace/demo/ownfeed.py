"""headrace's loader as a demo sees it: with agents, or decoding in the trainer's process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from headrace.client.batch import Batch
from headrace.client.counts import Counts
from headrace.client.loader import Loader
from headrace.demo.feeds import Fed
from headrace.demo.protocol import SegmentEnd, SegmentPlan
from headrace.transform.pipeline import Pipeline


class OwnFeed:
    """Yields a headrace loader's batches from the plan's first step on, epoch after epoch."""

    def __init__(self, plan: SegmentPlan) -> None:
        self._loader = Loader(
            plan.root,
            pipeline=Pipeline.from_json(plan.pipeline),
            batch_size=plan.batch_size,
            seed=plan.seed,
            workers=plan.workers,
            agents=plan.agents,
            token=plan.token,
            require_agents=True,
            trace=plan.trace,
        )
        self._loader.load_state_dict({**self._loader.state_dict(), "step": plan.first_step})
        self._counts = Counts()
        self._replaced: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loader.close()

    def __iter__(self) -> Iterator[Fed]:
        while True:
            for batch in self._loader:
                self._replaced |= {one.sample: f"{one.key}: {one.reason}" for one in batch.replaced}
                yield _fed(batch)
            self._counts.add(self._loader.summary().counts)

    def ready_batches(self) -> int:
        """Return how many batches lie ready in this process."""
        return self._loader.statistics().background.prefetch.ready_steps

    def end(self) -> SegmentEnd:
        """Tell what became of the samples so far."""
        counts = Counts()
        counts.add(self._counts)
        counts.add(self._loader.summary().counts)
        return SegmentEnd(
            wire_bytes=counts.wire_bytes,
            samples_prepared=counts.tensor,
            samples_raw=dict(counts.raw),
            samples_hedged=counts.hedged,
            samples_local=counts.local,
            read_s=counts.read_s,
            transform_s=counts.transform_s,
            substituted=self._replaced,
        )


def _fed(batch: Batch) -> Fed:
    return Fed(step=batch.step, size=batch.size, columns=batch, rows=batch.rows)
