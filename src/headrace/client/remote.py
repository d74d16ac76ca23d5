"""What a trainer that cannot see a dataset's files gets from agents instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

import msgspec

from headrace.client.fleet import Fleet
from headrace.client.held import Held
from headrace.client.maker import raw_fields
from headrace.client.member import Member
from headrace.client.pace import Pace
from headrace.core.draws import SampleKey
from headrace.core.errors import (
    AgentUnavailableError,
    AuthError,
    CallerError,
    CorruptSampleError,
    DeadlineError,
    RefusedError,
    RemoteError,
    StorageError,
)
from headrace.dataset.index import Index
from headrace.wire.connection import Answer, Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.frames import FrameHeader, fresh_memory, read_frame
from headrace.wire.messages import FetchRequest

HASTE_S = 5.0
"""Longest wait for an agent's index before another agent is asked for it [s]."""

MAX_INDEX_BYTES = 1 << 32
"""Longest index that is taken from an agent [bytes]."""


def fetch_index(url: str, endpoints: Sequence[Endpoint]) -> Index:
    """Return a dataset's index from the first agent that serves it.

    Agents that do not answer at once are asked again with more patience, after all others.

    Raises:
        AuthError: an agent refuses the token.
        RefusedError: all that answer refuse; the first one's reason.
        AgentUnavailableError, DeadlineError: none answers; the first one's reason.
    """
    failures: dict[str, RemoteError] = {}
    hasty = [replace(endpoint, read_timeout_s=HASTE_S) for endpoint in endpoints]
    for endpoint in (*hasty, *endpoints):
        failure = failures.get(endpoint.address)
        if failure is not None and not isinstance(failure, DeadlineError):
            continue
        try:
            return Index.from_bytes(_index_bytes(url, endpoint), source=endpoint.address)
        except AuthError:
            raise
        except RemoteError as error:
            failures[endpoint.address] = error
    raise min(failures.values(), key=lambda error: not isinstance(error, RefusedError))


def _index_bytes(url: str, endpoint: Endpoint) -> bytes:
    connection = Connection(endpoint)
    try:
        connection.send("GET", f"/v1/index?url={quote(url, safe='')}")
        return connection.receive().read(MAX_INDEX_BYTES)
    finally:
        connection.close()


class RawFetch:
    """Gets the encoded fields of single samples from whichever agent answers first in line."""

    def __init__(
        self, job: str, fleet: Fleet, pace: Pace, held: Held, *, rank: int, world: int
    ) -> None:
        self._path = f"/v1/jobs/{job}/fetch"
        self._fleet = fleet
        self._pace = pace
        self._held = held
        self._closed = False
        self._rank = rank
        self._world = world

    def __call__(self, key: SampleKey, late: str = "") -> Mapping[str, bytes]:
        """Return a sample's encoded fields; the agent of the name ``late`` is asked last.

        Raises:
            CorruptSampleError: an agent found that it is none.
            StorageError, AgentUnavailableError: no agent could read it.
            CallerError: it was closed while the job's quota held the sample back.
        """
        failure: RemoteError = AgentUnavailableError(
            "no agent is up, and this host does not see the dataset's files"
        )
        preferred = self._fleet.standing.preferred(key.sample)
        for member in sorted(preferred, key=lambda member: member.name == late):
            try:
                return self._from(member, key)
            except RemoteError as error:
                failure = error
        raise failure

    def _from(self, member: Member, key: SampleKey) -> Mapping[str, bytes]:
        connection = Connection(member.endpoint)
        try:
            connection.send("POST", self._path, msgspec.json.encode(self._request(key)))
            header, buffers = self._first_sample(connection.receive())
        finally:
            connection.close()
        if header.kind == "raw":
            return raw_fields(header, buffers)
        if header.code == "corrupt":
            raise CorruptSampleError(header.reason)
        raise StorageError(f"agent {member.name}: {header.reason or 'no sample came'}")

    def close(self) -> None:
        """Wait no longer for the job's quota: the loader ends."""
        self._closed = True

    def _first_sample(self, answer: Answer) -> tuple[FrameHeader, Sequence[memoryview]]:
        """Return the first frame that is not about the job's quota."""
        while not self._closed:
            header, buffers = read_frame(answer, fresh_memory)
            if header.kind != "held":
                return header, buffers
            self._held.note()
        raise CallerError("the loader was closed while the job's quota held a sample back")

    def _request(self, key: SampleKey) -> FetchRequest:
        reading = self._pace.read()
        return FetchRequest(
            step=reading.consumed_step + 1,
            rank=self._rank,
            world=self._world,
            samples=(key.sample,),
            epochs=(key.epoch,),
            consumed_step=reading.consumed_step,
            step_time_s=reading.step_time_s,
            wait_s=0.0,
            want="raw",
        )
