"""Keeps the agents and ranks of a job of one mind about who prepares what.

The first rank speaks for the job: it tells every agent who shares the samples, with which
weight and how far they are to be made, and brings each the map of the job's blocks, which
one of the agents finds out. The other ranks ask one agent what it was told, each another
one. So nothing grows with the ranks times the agents, and agents do not talk to each other.

Nobody has to agree for batches to be right: a sample that an agent is asked for and did
not plan is prepared on demand, or comes as encoded bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.client.chart import Chart
from headrace.client.member import Member
from headrace.core.errors import RemoteError
from headrace.policy.placement import leader
from headrace.prepare.job import OpenJob
from headrace.prepare.places import Whereabouts
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.messages import JobRegistered, JobRoster

A = TypeVar("A")

logger = logging.getLogger("headrace.client")

ANSWER_S = 5.0
"""Longest wait for an agent's answer [s]."""


class Accord:
    """One rank's part in it. ``tell`` may be called by several threads at once, the rest by one."""

    def __init__(self, job: OpenJob, *, rank: int) -> None:
        self.speaks = rank == 0
        """Whether this rank tells the agents; otherwise it listens."""

        self._rank = rank
        self._job = job.spec.id
        self._path = f"/v1/jobs/{job.spec.id}/roster"
        self._chart = Chart(job)
        self._unmapped: set[str] = set()
        self.cuts: dict[str, int] | None = None
        """What the first rank wants agents to do to each kind of sample; None: as registered."""

    @property
    def where(self) -> Whereabouts | None:
        """Where samples lie, as far as it is known."""
        return self._chart.where

    def roster(self, members: Sequence[Member]) -> JobRoster:
        """Return what agents are to know."""
        entries = tuple(member.entry for member in members)
        return JobRoster(roster=entries, places=self._chart.version, cuts=self.cuts)

    def tell(self, endpoint: Endpoint, roster: JobRoster) -> JobRegistered:
        """Tell an agent who shares the samples, and bring it the map if it lacks it.

        Raises:
            RemoteError: it does not answer, or does not know the job.
        """
        answer = self._call("PUT", endpoint, JobRegistered, roster)
        if answer.needs_places and roster.places == self._chart.version:
            self._bring_map(endpoint)
        return answer

    def seek_map(self, members: Sequence[Member]) -> None:
        """Take the newest map from the agent that finds it out.

        Raises:
            RemoteError: the agent does not answer.
        """
        chosen = leader(self._job, [member.name for member in members])
        self._chart.fetch(_hasty(members[chosen].endpoint))

    def listen(self, members: Sequence[Member]) -> JobRoster:
        """Return what the first rank told an agent, and take the map that it uses.

        Raises:
            RemoteError: the agent does not answer.
        """
        endpoint = _hasty(members[self._rank % len(members)].endpoint)
        heard = self._call("GET", endpoint, JobRoster)
        if heard.places != self._chart.version:
            self._chart.fetch(endpoint)
        return heard

    def _call(self, method: str, endpoint: Endpoint, form: type[A], message: object = None) -> A:
        connection = Connection(_hasty(endpoint))
        try:
            return connection.call(method, self._path, form, message)
        finally:
            connection.close()

    def _bring_map(self, endpoint: Endpoint) -> None:
        """Bring an agent the map; without it its samples are only made later than they could."""
        try:
            self._chart.send(endpoint)
        except RemoteError as error:
            if endpoint.address not in self._unmapped:
                self._unmapped.add(endpoint.address)
                logger.warning("%s; it places samples without the map of blocks", error)


def _hasty(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, read_timeout_s=min(endpoint.read_timeout_s, ANSWER_S))
