"""What of a step is made on this host: samples from storage, from raw bytes, and from parts."""

from __future__ import annotations

from collections.abc import Callable

from headrace.client.assembly import Visit
from headrace.client.batch import Replaced
from headrace.client.inbox import Delivery, Inbox, MakingTask
from headrace.client.maker import Made
from headrace.client.shares import Piece
from headrace.client.stepdetail import StepDetail
from headrace.client.work import Work, Workshop
from headrace.core.draws import SampleKey
from headrace.core.parts import WHOLE, SamplePart
from headrace.core.record import Record


class Making:
    """Hands work to the decoding threads and takes in what came of it. For a gatherer's thread."""

    def __init__(self, shop: Workshop, inbox: Inbox) -> None:
        self._shop = shop
        self._inbox = inbox

    def make(self, work: Work, piece: Piece, how: str, *, late: str = "") -> None:
        """Let a piece be made here.

        Args:
            work: The step.
            piece: The sample or part.
            how: ``local`` or ``hedged``: what its sample counts as.
            late: Agent that owes it; its bytes are asked of others first.
        """
        if piece.part.is_whole:
            self._make_whole(work, piece.key, how, late)
        elif self._shop.maker.sees(piece.key):
            self._make_part(work, piece, how)
        else:  # all of its bytes have to come from an agent: once, not for each part
            self._make_whole(work, piece.key, how, late)

    def hand_over(
        self, work: Work, key: SampleKey, make: Callable[[], Made], how: str = ""
    ) -> None:
        """Let the decoding threads make a sample, unless they already do or it is settled."""
        visit = (key.sample, key.epoch)
        if visit not in work.local and visit in work.assembly.waiting:
            work.local[visit] = how
            self._submit(work, key, make)

    def take_part(self, work: Work, key: SampleKey, part: SamplePart, record: Record) -> None:
        """Take in a part, wherever it was made; settle its sample if it is the last."""
        visit = (key.sample, key.epoch)
        parts = work.parts[visit]
        sample = parts.take(part, record)
        if sample is None:
            return
        counts, hows = work.counts, set(parts.made_here.values())
        counts.divided += 1
        counts.tensor += not hows
        counts.ready += not hows and parts.are_ready
        counts.hedged += "hedged" in hows
        counts.local += hows == {"local"}
        if parts.cut == work.assembly.target(visit):
            work.assembly.put(visit, sample)
            return
        maker = self._shop.maker
        self.hand_over(work, key, lambda: maker.from_cut(key, sample, cut=parts.cut))

    def take(self, work: Work, delivery: Delivery) -> None:
        """Take in what a decoding thread made."""
        visit = (delivery.key.sample, delivery.key.epoch)
        if delivery.step != work.step or visit not in work.assembly.waiting:
            return
        work.counts.cpu_s += delivery.cpu_s
        if not delivery.part.is_whole:
            self._take_own_part(work, visit, delivery)
            return
        if isinstance(delivery.outcome, BaseException):
            raise delivery.outcome
        self._count(work, delivery, delivery.outcome)
        if not delivery.outcome.reason:
            work.tally.finished(visit, delivery.cpu_s)
        self._settle(work, visit, delivery.key, delivery.outcome)

    def _make_whole(self, work: Work, key: SampleKey, how: str, late: str = "") -> None:
        maker = self._shop.maker
        self.hand_over(work, key, lambda: maker.make(key, late=late), how)

    def _make_part(self, work: Work, piece: Piece, how: str) -> None:
        (key, part, _), maker = piece, self._shop.maker
        parts = work.parts[piece.visit]
        wanted = piece.visit in work.assembly.waiting and piece.visit not in work.local
        if wanted and parts.lacks(part) and part.number not in parts.made_here:
            parts.made_here[part.number] = how
            self._submit(work, key, lambda: maker.make_part(key, part, stop=parts.cut), part)

    def _submit(
        self, work: Work, key: SampleKey, make: Callable[[], Made], part: SamplePart = WHOLE
    ) -> None:
        shop, step = self._shop, work.step
        if shop.early is None or not shop.early.claim(step, key, part, self._inbox):
            shop.crew.submit(step, MakingTask(step, key, make, self._inbox, part))

    def _take_own_part(self, work: Work, visit: Visit, delivery: Delivery) -> None:
        """Take in a part; one that could not be made says nothing of its sample, so make that."""
        if visit in work.local:
            return
        key, part, made = delivery.key, delivery.part, delivery.outcome
        if isinstance(made, Made) and made.record is not None:
            self._count(work, delivery, made)
            self.take_part(work, key, part, made.record)
        elif isinstance(made, Exception):
            self._make_whole(work, key, work.parts[visit].made_here[part.number])
        elif isinstance(made, BaseException):
            raise made

    def _settle(self, work: Work, visit: Visit, key: SampleKey, made: Made) -> None:
        counts = work.counts
        counts.local += work.local[visit] == "local"
        counts.hedged += work.local[visit] == "hedged"
        if made.reason:
            work.replaced.append(self._replaced(work.step, key, made))
        if made.record is None:
            counts.dropped += 1
            work.assembly.drop(visit)
            return
        counts.substituted += made.taken is not None
        work.assembly.put(visit, made.record, taken=made.taken)

    def _count(self, work: Work, delivery: Delivery, made: Made) -> None:
        counts = work.counts
        counts.read_s += made.read_s
        counts.transform_s += made.transform_s
        counts.throttled_s += made.throttled_s
        counts.storage_bytes += made.storage_bytes
        counts.early += delivery.begin < work.begin
        if made.storage_bytes:
            counts.took(made.throttled_s + made.read_s)
            counts.storage_reads += 1
            counts.storage_read_s += made.throttled_s + made.read_s
            self._learn(work, delivery, made)
        if work.detail is not None:
            _detail(work.detail, delivery, made)

    def _learn(self, work: Work, delivery: Delivery, made: Made) -> None:
        key, whole = delivery.key, delivery.part.is_whole
        in_parts = (key.sample, key.epoch) in work.parts
        if not made.reason and whole != in_parts:  # what is foreseen is of the same
            foreseen_s = work.costs[key.sample, key.epoch]
            seconds = made.read_s + made.transform_s
            self._shop.costs.learn(key.sample, foreseen_s=foreseen_s, seconds=seconds)

    def _replaced(self, step: int, key: SampleKey, made: Made) -> Replaced:
        return Replaced(
            step=step,
            sample=key.sample,
            key=self._shop.maker.name(key),
            taken=made.taken,
            reason=made.reason,
        )


def _detail(detail: StepDetail, delivery: Delivery, made: Made) -> None:
    sample = delivery.key.sample
    if made.storage_bytes:
        detail.read(sample, delivery.begin, made)
    detail.made(sample, made.throttled_s + made.read_s + made.transform_s)
