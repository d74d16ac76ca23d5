"""Talks to the controller for one host of a job: patient with it, silent about it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from headrace.client.reporting.report import encoded
from headrace.core.backoff import Backoff
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import HeadraceError, ProtocolError, RefusedError
from headrace.wire.connection import Connection
from headrace.wire.control import HealthAnswer, HealthReport, JobAnnounced
from headrace.wire.endpoint import Endpoint

logger = logging.getLogger("headrace.client")

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
"""Longest pauses before the controller is tried again [s]."""

_ANNOUNCE_AGAIN = ("unknown-job", "stale-report")
"""Refusals of a controller that does not know this run of the host: it lost its memory."""


class ControllerLink:
    """One connection to the controller. For one thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        job: str,
        announcement: Callable[[], JobAnnounced],
        *,
        clock: Clock | None = None,
    ) -> None:
        self.away = False
        """Whether the last attempt failed."""

        self._connection = Connection(endpoint)
        self._path = f"/v1/jobs/{quote(job, safe='')}"
        self._announcement = announcement
        self._clock = clock or SystemClock()
        self._announced = False
        self._backoff = Backoff(first_s=FIRST_DELAY_S, longest_s=LONGEST_DELAY_S)
        self._try_at = -math.inf

    @property
    def try_in_s(self) -> float:
        """Time until it is worth trying [s]; 0: now."""
        return max(0.0, self._try_at - self._clock.now())

    def announce(self) -> HealthAnswer | None:
        """Announce the job; None while the controller is away."""
        return self._tried(self._announce)

    def report(self, report: HealthReport) -> HealthAnswer | None:
        """Report, after announcing the job where the controller does not know it; None: away."""
        return self._tried(lambda: self._report(report))

    def leave(self, host: str) -> None:
        """Say that the host is done; whether or not it is heard."""
        if not self._announced or self.away:
            return
        try:
            self._connection.send("DELETE", f"{self._path}?host={quote(host, safe='')}")
            self._connection.receive().read()
        except HeadraceError as error:
            logger.debug("%s; it will notice by itself that the job ended", error)

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    def _tried(self, ask: Callable[[], HealthAnswer]) -> HealthAnswer | None:
        if self.try_in_s > 0:
            return None
        try:
            answer = ask()
        except HeadraceError as error:
            self._fail(error)
            return None
        self._succeed()
        return answer

    def _announce(self) -> HealthAnswer:
        answer = self._connection.call("PUT", self._path, HealthAnswer, self._announcement())
        self._announced = True
        return _checked(answer, self._connection.endpoint)

    def _report(self, report: HealthReport) -> HealthAnswer:
        if not self._announced:
            self._announce()
        try:
            return self._post(report)
        except RefusedError as error:
            if error.code not in _ANNOUNCE_AGAIN:
                raise
        answer = self._announce()
        try:
            return self._post(report)
        except RefusedError as error:
            if error.code != "stale-report":
                raise
            return answer  # it was taken already: only its answer had been lost

    def _post(self, report: HealthReport) -> HealthAnswer:
        path = f"{self._path}/health"
        self._connection.send("POST", path, encoded(report))
        body = self._connection.receive().read()
        try:
            answer = msgspec.json.decode(body, type=HealthAnswer)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ProtocolError(
                f"controller {self._connection.endpoint.address} {path}: not its answer: {error}"
            ) from error
        return _checked(answer, self._connection.endpoint)

    def _fail(self, error: HeadraceError) -> None:
        self._try_at = self._clock.now() + self._backoff.failed()
        self._connection.close()
        if not self.away:
            logger.warning("%s; training goes on, and the quotas stay as they are", error)
        self.away = True

    def _succeed(self) -> None:
        if self.away:
            logger.info("controller %s answers again", self._connection.endpoint.address)
        self.away = False
        self._backoff.succeeded()


def _checked(answer: HealthAnswer, endpoint: Endpoint) -> HealthAnswer:
    """Return the answer if what it tells this host to do makes sense."""
    rates = answer.quotas.values()
    if not (
        all(0 <= rate < math.inf for rate in rates)
        and answer.every >= 1
        and 0 < answer.stall_every_s < math.inf
        and 0 <= answer.spread_s <= LONGEST_DELAY_S
    ):
        raise ProtocolError(
            f"controller {endpoint.address}: quotas {answer.quotas}, every={answer.every}, "
            f"stall_every_s={answer.stall_every_s:g}, spread_s={answer.spread_s:g} make no sense; "
            "is it a controller's port?"
        )
    return answer
