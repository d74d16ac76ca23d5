"""How far a replication is, as people and tools are told."""

from __future__ import annotations

from headrace.controller.replicating.crew import Crew
from headrace.controller.replicating.rate import GrowthRate
from headrace.policy.replication.copy import Copy
from headrace.policy.replication.pair import Pair
from headrace.wire.replication import CopyView


class Progress:
    """How fast the checkpoints of one replication move. Not thread-safe; time is a parameter.

    Args:
        crew: Who moves them.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._rates: dict[str, GrowthRate] = {}

    def sample(self, pair: Pair, now: float) -> None:
        """Take note of what was moved up to now."""
        moving = {path: copy for path, copy in pair.copies.items() if copy.running}
        self._rates = {path: self._rates.get(path, GrowthRate()) for path in moving}
        for path, copy in moving.items():
            self._rates[path].sample(self._crew.moved(copy.key), now)

    def views(self, pair: Pair) -> tuple[CopyView, ...]:
        """Return all checkpoints of the replication, the newest last."""
        copies = sorted(pair.copies.values(), key=lambda copy: (copy.step or 0, copy.first_seen))
        return tuple(self._view(copy) for copy in copies)

    def _view(self, copy: Copy) -> CopyView:
        total = copy.total_bytes
        sent = copy.sent_bytes + self._crew.under_way(copy.key)
        here = total if copy.state == "published" else min(total, copy.here_bytes + sent)
        found = self._rates.get(copy.key.checkpoint)
        rate = found.per_s if found is not None else 0.0
        return CopyView(
            checkpoint=copy.key.checkpoint,
            step=copy.step,
            state=copy.state,
            reason=copy.held_up or copy.reason or copy.missing,
            urgent=copy.urgent,
            nbytes=total,
            here_bytes=here,
            sent_bytes=sent,
            bytes_per_s=rate,
            eta_s=(total - here) / rate if rate > 0 and copy.is_open else None,
            took_s=_took(copy),
        )


def _took(copy: Copy) -> float | None:
    if copy.state != "published" or copy.over_at is None or copy.began_at is None:
        return None
    return copy.over_at - copy.began_at
