"""One process's part in reporting for its host: it speaks to the controller, or to who does."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import xxhash

from headrace.client.reporting.figures import Figures, later
from headrace.client.reporting.hostname import host_name
from headrace.client.reporting.link import ControllerLink
from headrace.client.reporting.origins import Origins
from headrace.client.reporting.portions import Portions
from headrace.client.reporting.report import health_report
from headrace.client.reporting.seat import Seat, Sent
from headrace.client.reporting.tally import Sum, Tally
from headrace.client.reporting.words import Goodbye, Word, pack, unpack
from headrace.core.media import TierName
from headrace.wire.control import HealthAnswer, JobAnnounced
from headrace.wire.endpoint import Endpoint

KEEP_ALIVE_S = 10.0
"""A job that trains nothing for so long says that it is still there [s]."""

SELF = ""
"""This process's own name among those that its host's speaker hears."""

_SHORTEST_S = 1e-3

Announce: TypeAlias = Callable[[str, str, int], JobAnnounced]
"""Makes the announcement from the host, its boot, and the iterations that are done."""


class Voice:
    """For the reporting thread. Nothing waits but the questions to the controller."""

    def __init__(
        self,
        job: str,
        endpoint: Endpoint,
        announce: Announce,
        *,
        ranks: int,
        storage_tier: str | None,
        now: float,
    ) -> None:
        self._origins = Origins(storage_tier)
        self._portions = Portions()
        self.host = host_name()
        self._place = xxhash.xxh32_intdigest(self.host.encode()) / 2**32
        """This host's among those of its job, 0 to 1: when it speaks within a spread."""

        self.word = Word(
            boot=secrets.token_hex(8),
            iteration=-1,
            ranks=ranks,
            tier=self._origins.direct,
            answer=None,
            answered_at=0.0,
            away=False,
        )
        """What is known, by whoever speaks."""

        self._seat = Seat(job)
        self._link = ControllerLink(endpoint, job, lambda: self._announcement(announce))
        self._tally = Tally(ranks)
        self._unsent: Figures | None = None
        self._next_iteration = 0
        self._taken_at = self._spoke_at = now

    @property
    def speaks(self) -> bool:
        """Whether this process speaks for its host."""
        return self._seat.speaks

    def fileno(self) -> int:
        """Return the descriptor on which other ranks are heard; it changes when a rank rises."""
        return self._seat.fileno()

    def due_in(self, now: float) -> float:
        """Return the longest time until the next ``turn`` [s]."""
        if not self.speaks:
            return KEEP_ALIVE_S
        report_s = self._tally.due_in(now)
        if report_s is not None:
            return report_s
        if self._link.away:
            return self._link.try_in_s
        return max(self._spoke_at + KEEP_ALIVE_S - now, 0.0)

    def announce(self, now: float) -> None:
        """Announce the job, if this process is the one who does."""
        if self.speaks:
            self._answered(self._link.announce(), now)

    def say(self, figures: Figures, now: float) -> None:
        """Report this rank's figures, or pass them on to who reports."""
        figures, self._unsent = later(self._unsent, figures), None
        if self.speaks or self._tell_speaker(figures) == "nobody":
            self._tally.add(SELF, figures, now)

    def hear(self, now: float) -> None:
        """Take what other processes of the host have said."""
        for sender, data in self._seat.heard():
            match unpack(data):
                case Figures() as figures if self.speaks:
                    self._tally.add(sender, figures, now)
                case Goodbye() if self.speaks:
                    self._tally.remove(sender)
                case Word() as word if not self.speaks:
                    self.word = word
                case _:
                    pass  # it was meant for who had the name before

    def turn(self, now: float) -> None:
        """Do what is due: a report, or a sign of life."""
        if not self.speaks or self.due_in(now) > 0:
            return
        if self._tally.due_in(now) is None:
            self.announce(now)
        else:
            self._report(self._tally.take(now), now)

    def leave(self) -> None:
        """Let another rank of the host go on reporting; the last one says that the host is done."""
        if not self.speaks and self._seat.tell_speaker(pack(Goodbye())) == "nobody":
            self._seat.try_take()
        self._tally.remove(SELF)
        is_last = self.speaks and not self._tally.ranks
        self._seat.close()
        if is_last:
            self._link.leave(self.host)

    def close(self) -> None:
        """Let go of the name and the connection."""
        self._seat.close()
        self._link.close()

    def _tell_speaker(self, figures: Figures) -> Sent:
        """Send to who speaks; ``nobody`` means that this process does, from now on."""
        message = pack(figures)
        sent = self._seat.tell_speaker(message)
        if sent == "nobody" and self._seat.try_take():
            self._tally.expected = self.word.ranks
            return sent
        if sent == "nobody":  # another one was faster
            sent = self._seat.tell_speaker(message)
        if sent != "sent":
            self._unsent = figures
        return "busy" if sent == "nobody" else sent

    def _report(self, total: Sum, now: float) -> None:
        figures = total.figures
        self._origins.note(figures)
        self._portions.note(figures)
        iteration = max(figures.iteration, self.word.iteration + 1)
        report = health_report(
            msgspec.structs.replace(figures, iteration=iteration),
            self._origins,
            self._portions,
            host=self.host,
            boot=self.word.boot,
            ranks=total.ranks,
            interval_s=max(now - self._taken_at, _SHORTEST_S),
        )
        self._taken_at, self._next_iteration = now, iteration
        answer = self._link.report(report)
        self._answered(answer, now, iteration=iteration, ranks=self._tally.ranks)

    def _answered(
        self,
        answer: HealthAnswer | None,
        now: float,
        *,
        iteration: int | None = None,
        ranks: int | None = None,
    ) -> None:
        """Keep what the controller said, and hand it on to the host's other ranks."""
        self._spoke_at = now
        if answer is not None:
            self._tally.delay_s = answer.spread_s * self._place
        old = self.word
        self.word = Word(
            boot=old.boot,
            iteration=old.iteration if iteration is None else iteration,
            ranks=max(ranks or old.ranks, 1),
            tier=TierName(self._origins.direct),
            answer=_in_force(old.answer, answer),
            answered_at=old.answered_at if answer is None else now,
            away=self._link.away,
        )
        for name in self._tally.names:
            if name != SELF and self._seat.tell(name, pack(self.word)) == "nobody":
                self._tally.remove(name)

    def _announcement(self, announce: Announce) -> JobAnnounced:
        done = max(self._next_iteration, self.word.iteration + 1)
        return announce(self.host, self.word.boot, done)


def _in_force(before: HealthAnswer | None, answer: HealthAnswer | None) -> HealthAnswer | None:
    """Return what holds now: quotas stay while the controller is away, and while it settles."""
    if answer is None or not answer.settling:
        return answer or before
    return msgspec.structs.replace(answer, quotas={} if before is None else before.quotas)
