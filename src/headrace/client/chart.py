"""The map of the job's blocks as one loader has it: fetched from one agent, brought to others."""

from __future__ import annotations

import logging

import msgspec

from headrace.core.errors import CallerError, ProtocolError
from headrace.prepare.job import OpenJob
from headrace.prepare.places import Whereabouts
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.messages import JobPlaces

logger = logging.getLogger("headrace.client")

MAX_MAP_BYTES = 64 << 20
"""Longest map that is taken from an agent [bytes]."""


class Chart:
    """Keeps the newest map. For one thread; ``where`` may be read by any."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._path = f"/v1/jobs/{job.spec.id}/places"
        self._body = b""
        self._said = ""
        self.where: Whereabouts | None = None
        """What it says; None: nothing is known, and samples may be made anywhere."""

    @property
    def version(self) -> str:
        """Name of the map; empty when there is none."""
        return self.where.version if self.where else ""

    def fetch(self, endpoint: Endpoint) -> None:
        """Take an agent's map if it is another one.

        Raises:
            RemoteError: the agent does not answer, or not with a map of this job.
        """
        body = self._ask(endpoint)
        if not body:
            return
        try:
            places = msgspec.json.decode(body, type=JobPlaces)
            where = Whereabouts(places, self._job) if places.version else None
        except (msgspec.MsgspecError, CallerError) as error:
            raise ProtocolError(f"agent {endpoint.address}: no map of blocks: {error}") from error
        self._tell(places)
        if where is not None:
            self.where, self._body = where, body

    def send(self, endpoint: Endpoint) -> None:
        """Bring the map to an agent that lacks it.

        Raises:
            RemoteError: the agent does not take it.
        """
        connection = Connection(endpoint)
        try:
            connection.send("PUT", self._path, self._body)
            connection.receive().read()
        finally:
            connection.close()

    def _ask(self, endpoint: Endpoint) -> bytes:
        connection = Connection(endpoint)
        try:
            connection.send("GET", f"{self._path}?have={self.version}")
            return connection.receive().read(MAX_MAP_BYTES)
        finally:
            connection.close()

    def _tell(self, places: JobPlaces) -> None:
        if places.reason != self._said:
            self._said = places.reason
            logger.info("where samples lie: %s", places.reason or "known")
