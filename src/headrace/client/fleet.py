"""The agents of a job: who may be asked now, who is down, who is let back in.

One background thread registers the job, also again at an agent that came back or whose
roster changed. Threads that fetch only take the current members and report failures;
they never wait for an agent that is down.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from headrace.client.joining import join_all
from headrace.core.errors import (
    AgentUnavailableError,
    AuthError,
    HeadraceError,
    RefusedError,
    RemoteError,
)
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.messages import JobRegistered, RegisterJob

logger = logging.getLogger("headrace.client")

FIRST_RETRY_S = 0.5
"""Pause before an agent that failed is tried again [s]; doubled after each further failure."""

LONGEST_RETRY_S = 15.0
IDLE_CHECK_S = 1.0
"""Longest time the background thread sleeps [s]."""

REGISTER_TIMEOUT_S = 5.0
"""Longest wait for an agent's answer to a registration if a loader can start without it [s].
An agent that needs longer, to read a long index, goes on with it; it is asked again."""

LOST_JOB = "unknown-job"
"""The code of an agent that restarted and has to be told the job again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """An agent that may be asked now."""

    endpoint: Endpoint
    name: str
    boot: str
    raw_only: str = ""
    """Why it said that it serves raw bytes only; it may come round, so it is asked all the same."""

    distrusted: str = ""
    """Why it is asked for raw bytes only, whatever it offers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentStatistics:
    """One agent as this loader sees it."""

    address: str
    name: str
    state: str
    """``up``, ``raw-only``, ``down`` or ``connecting``."""

    reason: str
    """Why it is down or raw-only."""

    failures: int
    """Failures since the loader started."""


@dataclass(kw_only=True, slots=True)
class _Seat:
    """What is known about one configured agent."""

    endpoint: Endpoint
    name: str = ""
    member: Member | None = None
    reason: str = ""
    distrusted: str = ""
    failures: int = 0
    in_a_row: int = 0
    retry_at: float = 0.0
    roster: tuple[str, ...] = field(default_factory=tuple)


Message = Callable[[tuple[str, ...], int], RegisterJob]
"""Makes the registration for a roster and a start step."""


class Fleet:
    """All agents of one loader. Thread-safe."""

    def __init__(self, endpoints: Sequence[Endpoint], *, job: str, message: Message) -> None:
        self._seats = [_Seat(endpoint=endpoint) for endpoint in endpoints]
        self._path = f"/v1/jobs/{job}"
        self._message = message
        self._step = 0
        self._require = False
        self._members: tuple[Member, ...] = ()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """The agents that may be asked now, by name."""
        return self._members

    def start(self, step: int, *, require: bool) -> None:
        """Register the job everywhere, so that preparation starts at ``step``.

        Args:
            step: First step that will be asked for.
            require: Fail unless every agent answers; otherwise one warning each.

        Raises:
            AuthError: an agent refuses the token. Never passed over.
            RefusedError: an agent refuses the job. Never passed over.
            AgentUnavailableError: ``require``, and an agent does not answer.
        """
        self._step, self._require = step, require
        self._each(self._seats, self._meet)
        for seat in self._seats:
            if seat.member is None and require:
                raise AgentUnavailableError(f"{seat.reason} (require_agents is set)")
        self._tell_rosters()
        if self._thread is None and self._seats:
            self._thread = threading.Thread(target=self._keep, name="headrace-fleet", daemon=True)
            self._thread.start()

    def report(self, member: Member, error: HeadraceError, *, step: int) -> None:
        """Take an agent out after a failure; it is tried again later, from ``step`` on."""
        with self._changed:
            seat = self._seat(member)
            if seat is None:
                return
            self._step = max(self._step, step)
            self._take_out(seat, str(error), at_once=_is_lost_job(error))
            self._changed.notify_all()

    def distrust(self, member: Member, reason: str) -> None:
        """Ask an agent for raw bytes only from now on."""
        with self._changed:
            for seat in self._seats:
                if seat.name == member.name and not seat.distrusted:
                    seat.distrusted = reason
                    logger.warning("agent %s is asked for raw bytes only: %s", seat.name, reason)
                    seat.member = seat.member and replace(seat.member, distrusted=reason)
            self._publish()

    def statistics(self) -> tuple[AgentStatistics, ...]:
        """Describe every configured agent."""
        with self._changed:
            return tuple(_describe(seat) for seat in self._seats)

    def close(self, timeout_s: float) -> None:
        """Stop the background thread."""
        with self._changed:
            self._closed = True
            self._members = ()
            self._changed.notify_all()
        if self._thread is not None:
            join_all([self._thread], timeout_s)

    def _seat(self, member: Member) -> _Seat | None:
        """Return the seat of a member as it is now, not of an earlier life of it."""
        for seat in self._seats:
            if seat.member is not None and seat.member.endpoint is member.endpoint:
                return seat if seat.member.boot == member.boot else None
        return None

    def _each(self, seats: Iterable[_Seat], act: Callable[[_Seat], None]) -> None:
        seats = list(seats)
        if len(seats) < 2:
            for seat in seats:
                act(seat)
            return
        with ThreadPoolExecutor(min(len(seats), 16), "headrace-register") as threads:
            list(threads.map(act, seats))

    def _meet(self, seat: _Seat) -> None:
        """Register at one agent; the errors that no waiting can cure are raised."""
        roster = self._roster_with(seat)
        try:
            answer = self._put(seat, roster)
        except (AuthError, RefusedError):
            raise
        except RemoteError as error:
            with self._changed:
                self._take_out(seat, str(error), at_once=False)
            return
        self._let_in(seat, answer, roster or (answer.agent,))

    def _roster_with(self, seat: _Seat) -> tuple[str, ...]:
        """Return the names of the members and of this agent; none while its name is unknown."""
        if not seat.name:
            return ()
        return tuple(sorted({*(member.name for member in self._members), seat.name}))

    def _put(self, seat: _Seat, roster: tuple[str, ...]) -> JobRegistered:
        timeout_s = seat.endpoint.read_timeout_s
        if not self._require:
            timeout_s = min(timeout_s, REGISTER_TIMEOUT_S)
        connection = Connection(replace(seat.endpoint, read_timeout_s=timeout_s))
        try:
            message = self._message(roster, self._step)
            return connection.call("PUT", self._path, JobRegistered, message)
        finally:
            connection.close()

    def _let_in(self, seat: _Seat, answer: JobRegistered, roster: tuple[str, ...]) -> None:
        with self._changed:
            if answer.mode == "raw-only":
                logger.warning("agent %s serves raw bytes only: %s", answer.agent, answer.reason)
            elif seat.failures:
                logger.warning("agent %s is back", answer.agent)
            seat.name, seat.in_a_row = answer.agent, 0
            seat.reason = answer.reason
            seat.member = Member(
                endpoint=seat.endpoint,
                name=answer.agent,
                boot=answer.boot,
                raw_only=answer.reason if answer.mode == "raw-only" else "",
                distrusted=seat.distrusted,
            )
            seat.roster = roster
            self._publish()

    def _take_out(self, seat: _Seat, reason: str, *, at_once: bool) -> None:
        seat.member, seat.reason = None, reason
        delay_s = 0.0 if at_once else min(FIRST_RETRY_S * 2**seat.in_a_row, LONGEST_RETRY_S)
        seat.retry_at = time.monotonic() + delay_s
        seat.failures += 1
        seat.in_a_row += 1
        if seat.in_a_row == 1:
            logger.warning("%s; going on without it, it is tried again", reason)
        self._publish()

    def _publish(self) -> None:
        members = [seat.member for seat in self._seats if seat.member is not None]
        self._members = tuple(sorted(members, key=lambda member: member.name))

    def _tell_rosters(self) -> None:
        """Register again where an agent knows another roster than there is now."""
        roster = tuple(member.name for member in self._members)
        stale = [seat for seat in self._seats if seat.member and seat.roster != roster]
        self._each(stale, lambda seat: self._tell(seat, roster))

    def _tell(self, seat: _Seat, roster: tuple[str, ...]) -> None:
        try:
            self._put(seat, roster)
        except RemoteError as error:
            with self._changed:
                self._take_out(seat, str(error), at_once=False)
            return
        seat.roster = roster

    def _keep(self) -> None:
        while self._sleep_until_due():
            now = time.monotonic()
            for seat in self._seats:
                if seat.member is None and seat.retry_at <= now and not self._closed:
                    self._try_again(seat)
            if not self._closed:
                self._tell_rosters()

    def _try_again(self, seat: _Seat) -> None:
        try:
            self._meet(seat)
        except (AuthError, RefusedError) as error:
            with self._changed:
                self._take_out(seat, str(error), at_once=False)

    def _sleep_until_due(self) -> bool:
        with self._changed:
            due = [seat.retry_at for seat in self._seats if seat.member is None]
            delay_s = min([IDLE_CHECK_S, *(at - time.monotonic() for at in due)])
            if delay_s > 0 and not self._closed:
                self._changed.wait(delay_s)
            return not self._closed


def _is_lost_job(error: HeadraceError) -> bool:
    return isinstance(error, RefusedError) and error.code == LOST_JOB


def _describe(seat: _Seat) -> AgentStatistics:
    member = seat.member
    if member is None:
        state = "down" if seat.failures else "connecting"
    else:
        state = "raw-only" if member.distrusted or member.raw_only else "up"
    return AgentStatistics(
        address=seat.endpoint.address,
        name=seat.name,
        state=state,
        reason=(member.distrusted or member.raw_only) if member else seat.reason,
        failures=seat.failures,
    )
