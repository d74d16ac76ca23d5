"""The agents of a job: who may be asked now, who is down, who is let in, who does how much.

One background thread registers the job, also again at an agent that came back, and keeps
agents and ranks of one mind about who shares the samples: the first rank tells all agents
the roster and brings them the map of the job's blocks, the others ask one agent each what
it was told. Threads that fetch only take the current standing and report failures; they
never wait for an agent that is down.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from headrace.client.accord import Accord
from headrace.client.joining import join_all
from headrace.client.member import Member
from headrace.client.registry import ListedAgent, Registry
from headrace.client.shares import Standing
from headrace.core.backoff import Backoff
from headrace.core.errors import (
    AgentUnavailableError,
    AuthError,
    HeadraceError,
    RefusedError,
    RemoteError,
)
from headrace.core.roster import MOST_WEIGHT
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.messages import JobRegistered, JobRoster, RegisterJob

logger = logging.getLogger("headrace.client")

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 15.0
"""Longest pauses before an agent that failed is tried again [s]."""

IDLE_CHECK_S = 1.0
"""Longest time the background thread sleeps [s]."""

REGISTER_TIMEOUT_S = 5.0
"""Longest wait for an agent's answer to a registration if a loader can start without it [s].
An agent that needs longer, to read a long index, goes on with it; it is asked again."""

LOOK_S = 2.0
"""Time between two looks at the registry [s]."""

FIRST_ROUND_S = 0.5
"""Time from the start to the first round of telling or listening [s]; doubled after each."""

ROUND_S = 10.0
"""Longest time between two rounds [s]; a quarter more or less, so that ranks do not fall into
step."""

LOST_JOB = "unknown-job"
"""The code of an agent that restarted and has to be told the job again."""


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

    weight: int
    """Its part of the work, relative to the others'; 0 while it is not asked."""


@dataclass(kw_only=True, slots=True)
class _Seat:
    """What is known about one configured agent."""

    listed: ListedAgent
    name: str = ""
    member: Member | None = None
    last: Member | None = None
    """The member that it is or was."""

    reason: str = ""
    distrusted: str = ""
    failures: int = 0
    backoff: Backoff = field(
        default_factory=lambda: Backoff(first_s=FIRST_RETRY_S, longest_s=LONGEST_RETRY_S)
    )
    retry_at: float = 0.0
    told: JobRoster | None = None
    """What it knows of the others."""

    weight: int = 1
    """How much it said last that it can do; counts from the next round on."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return self.listed.endpoint


Message = Callable[[JobRoster, int], RegisterJob]
"""Makes the registration for a roster and a start step."""


class Fleet:
    """All agents of one loader. Thread-safe."""

    def __init__(self, registry: Registry, accord: Accord, *, job: str, message: Message) -> None:
        """Take in who knows the agents.

        Args:
            registry: Tells which agents there are.
            accord: This rank's part in agreeing on who prepares what.
            job: Id of the job.
            message: Makes registrations.
        """
        self._registry = registry
        self._accord = accord
        self._seats: list[_Seat] = []
        self._path = f"/v1/jobs/{job}"
        self._message = message
        self._step = 0
        self._require = False
        self._standing = Standing()
        self._look_at = 0.0
        self._round_at = 0.0
        self._round_s = FIRST_ROUND_S
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """The agents that may be asked now, by name."""
        return self._standing.members

    @property
    def cuts(self) -> dict[str, int] | None:
        """How far agents make samples of each kind now; None: as registered."""
        return self._accord.cuts

    @property
    def standing(self) -> Standing:
        """The agents that may be asked now, and what is known of where samples lie."""
        return self._standing

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
        self._look()
        self._each(self._seats, self._meet)
        for seat in self._seats:
            if seat.member is None and require:
                raise AgentUnavailableError(f"{seat.reason} (require_agents is set)")
        self._tell(self._seats)
        if self._thread is None and (self._seats or self._registry.may_change):
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

    def recut(self, cuts: dict[str, int]) -> None:
        """Have agents told how far samples are to be made from now on; for the first rank."""
        with self._changed:
            self._accord.cuts = cuts
            self._changed.notify_all()

    def statistics(self) -> tuple[AgentStatistics, ...]:
        """Describe every configured agent."""
        with self._changed:
            return tuple(_describe(seat) for seat in self._seats)

    def close(self, timeout_s: float) -> None:
        """Stop the background thread."""
        with self._changed:
            self._closed = True
            self._standing = Standing()
            self._changed.notify_all()
        if self._thread is not None:
            join_all([self._thread], timeout_s)

    def _seat(self, member: Member) -> _Seat | None:
        """Return the seat of a member as it is now, not of an earlier life of it."""
        for seat in self._seats:
            if seat.member is not None and seat.member.endpoint == member.endpoint:
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

    def _look(self) -> None:
        """Take in which agents there are; new ones are met by the background thread."""
        listed = {agent.endpoint.address: agent for agent in self._registry.look()}
        with self._changed:
            seats = [seat for seat in self._seats if seat.endpoint.address in listed]
            for seat in seats:
                seat.listed = listed.pop(seat.endpoint.address)
            self._seats = seats + [_Seat(listed=agent) for agent in listed.values()]
            self._publish()
        self._look_at = time.monotonic() + LOOK_S

    def _meet(self, seat: _Seat) -> None:
        """Register at one agent; the errors that no waiting can cure are raised."""
        roster = self._roster_with(seat)
        try:
            answer = self._register(seat, roster)
        except (AuthError, RefusedError):
            raise
        except RemoteError as error:
            with self._changed:
                self._take_out(seat, str(error), at_once=False)
            return
        self._let_in(seat, answer, roster)

    def _roster_with(self, seat: _Seat) -> JobRoster:
        """Return the members and this agent; nobody while its name is unknown."""
        if seat.last is None:
            return JobRoster(roster=())
        others = [member for member in self.members if member.name != seat.name]
        return self._accord.roster(sorted([*others, seat.last], key=lambda member: member.name))

    def _register(self, seat: _Seat, roster: JobRoster) -> JobRegistered:
        timeout_s = seat.endpoint.read_timeout_s
        if not self._require:
            timeout_s = min(timeout_s, REGISTER_TIMEOUT_S)
        connection = Connection(replace(seat.endpoint, read_timeout_s=timeout_s))
        try:
            message = self._message(roster, self._step)
            return connection.call("PUT", self._path, JobRegistered, message)
        finally:
            connection.close()

    def _let_in(self, seat: _Seat, answer: JobRegistered, told: JobRoster) -> None:
        with self._changed:
            if answer.mode == "raw-only":
                logger.warning("agent %s serves raw bytes only: %s", answer.agent, answer.reason)
            elif seat.failures:
                logger.warning("agent %s is back", answer.agent)
            seat.name = answer.agent
            seat.backoff.succeeded()
            seat.reason = answer.reason
            seat.told = None if answer.needs_places else told
            self._seat_member(seat, answer)
            self._publish()
            self._warn_of_twins(seat)

    def _warn_of_twins(self, seat: _Seat) -> None:
        for other in self._seats:
            if other is not seat and other.member is not None and other.name == seat.name:
                logger.warning(
                    "agents %s and %s are both named %s, and only one of them is asked; give each "
                    "its own --name",
                    other.endpoint.address,
                    seat.endpoint.address,
                    seat.name,
                )

    def _seat_member(self, seat: _Seat, answer: JobRegistered) -> None:
        seat.weight = min(max(answer.weight, 1), MOST_WEIGHT)
        seat.last = seat.member = Member(
            endpoint=seat.endpoint,
            name=answer.agent,
            boot=answer.boot,
            hosts=tuple(dict.fromkeys((*answer.hosts, *seat.listed.hosts))),
            weight=seat.member.weight if seat.member else seat.weight,
            raw_only=answer.reason if answer.mode == "raw-only" else "",
            distrusted=seat.distrusted,
        )

    def _take_out(self, seat: _Seat, reason: str, *, at_once: bool) -> None:
        seat.member, seat.reason = None, reason
        pause_s = seat.backoff.failed()
        seat.retry_at = time.monotonic() + (0.0 if at_once else pause_s)
        seat.failures += 1
        if seat.backoff.failures == 1:
            logger.warning("%s; going on without it, it is tried again", reason)
        self._publish()

    def _publish(self) -> None:
        members = [seat.member for seat in self._seats if seat.member is not None]
        named = {member.name: member for member in members}
        where = self._accord.where
        if (set(named.values()), where) != (set(self.members), self._standing.where):
            self._standing = Standing.of(list(named.values()), where)

    def _tell(self, seats: Sequence[_Seat]) -> None:
        """Tell agents who shares the samples, those that know otherwise."""
        roster = self._accord.roster(self.members)
        stale = [seat for seat in seats if seat.member and seat.told != roster]
        self._each(stale, lambda seat: self._tell_one(seat, roster))

    def _tell_one(self, seat: _Seat, roster: JobRoster) -> None:
        try:
            answer = self._accord.tell(seat.endpoint, roster)
        except RemoteError as error:
            with self._changed:
                self._take_out(seat, str(error), at_once=_is_lost_job(error))
            return
        with self._changed:
            if seat.member is not None:
                seat.told = roster
                self._seat_member(seat, answer)
                self._publish()

    def _keep(self) -> None:
        while self._sleep_until_due():
            now = time.monotonic()
            if self._look_at <= now:
                self._look()
            away = [seat for seat in self._seats if not seat.member and seat.retry_at <= now]
            self._each(away, self._try_again)
            if self._round_at <= now and not self._closed:
                self._round()
            if self._accord.speaks and not self._closed:
                self._tell(self._seats)

    def _round(self) -> None:
        """Agree with the others: on the map of blocks, and on how much each agent does.

        Weights count from one round to the next, for the speaker as for those that it tells: with
        each change agents plan their next steps anew.
        """
        self._round_s = min(2 * self._round_s, ROUND_S)
        self._round_at = time.monotonic() + self._round_s * random.uniform(0.75, 1.25)
        if not self.members:
            return
        try:
            if self._accord.speaks:
                self._accord.seek_map(self.members)
            else:
                self._adopt(self._accord.listen(self.members))
        except RemoteError as error:
            logger.info("where samples lie, and who prepares them: %s; asked again", error)
            self._round_at = time.monotonic() + FIRST_ROUND_S  # of another, if it is down
        with self._changed:
            for seat in self._seats:
                seat.told = None  # so that it is told anew, and says how it is
                if self._accord.speaks and seat.member is not None:
                    seat.member = replace(seat.member, weight=seat.weight)
            self._publish()

    def _adopt(self, heard: JobRoster) -> None:
        """Give the agents the weights that the first rank told them, and hear of its cuts."""
        if heard.cuts is not None:
            self._accord.cuts = heard.cuts
        entries = {entry.name: entry for entry in heard.roster}
        with self._changed:
            for seat in self._seats:
                entry = entries.get(seat.name)
                if seat.member is not None and entry is not None:
                    seat.member = replace(seat.member, weight=entry.weight, hosts=entry.hosts)

    def _try_again(self, seat: _Seat) -> None:
        if self._closed:
            return
        try:
            self._meet(seat)
        except (AuthError, RefusedError) as error:
            with self._changed:
                self._take_out(seat, str(error), at_once=False)

    def _sleep_until_due(self) -> bool:
        with self._changed:
            due = [seat.retry_at for seat in self._seats if seat.member is None]
            due += [self._round_at] if self._seats else []
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
        weight=member.weight if member else 0,
    )
