"""Announces a save to the controller, which gives it a rate beside what others read and write.

Saving never fails because of the controller: where it is away, or does not know the job, the save
goes on without a limit, and the log says so.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from urllib.parse import quote

from headrace.client.endpoints import find_controller
from headrace.core.errors import ConfigError, HeadraceError
from headrace.wire.connection import Connection
from headrace.wire.control import Burst, BurstAnswer
from headrace.wire.endpoint import Endpoint

_log = logging.getLogger("headrace.checkpoint")

PATIENCE_S = 10.0
"""Longest wait for a rate where nothing is free; then the save begins without a limit [s]."""

ASK_AGAIN_S = 0.5
"""Between two questions whether something is free by now [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveAnnouncement:
    """How saves are announced to the controller."""

    job: str
    """The job that saves, as its loaders call it to the controller."""

    tier: str = "hdd"
    """The storage that is written to, as the controller names it."""

    deadline_s: float = 300.0
    """A save is to be over this long after it began [s]."""

    controller: str | None = None
    """Its address; None reads the environment variable ``HEADRACE_CONTROLLER``."""

    token: str | None = field(default=None, repr=False)
    """Its token; None reads the environment variable ``HEADRACE_TOKEN``."""

    ca_file: str | None = None
    """Certificates to trust for ``https``, PEM."""

    def __post_init__(self) -> None:
        if not self.job or not self.tier or not 0 < self.deadline_s < float("inf"):
            raise ConfigError(
                f"an announcement needs a job and a tier ({self.job!r}, {self.tier!r}), and "
                f"deadline_s={self.deadline_s:g} above 0"
            )

    def endpoint(self) -> Endpoint | None:
        """Return where the controller listens; None: there is none."""
        return find_controller(self.controller, token=self.token, ca_file=self.ca_file)


class AnnouncedSave:
    """One save, from its announcement until it is over. For one thread."""

    def __init__(self, announcement: SaveAnnouncement, name: str, nbytes: int) -> None:
        """Prepare to announce.

        Args:
            announcement: By whom, and where.
            name: Of the checkpoint; letters, digits and a few signs.
            nbytes: What all ranks write together [bytes].
        """
        self._path = f"/v1/jobs/{quote(announcement.job, safe='')}/bursts/{quote(name, safe='')}"
        self._burst = Burst(
            tier=announcement.tier, nbytes=nbytes, deadline_s=announcement.deadline_s
        )
        self._endpoint = announcement.endpoint()
        self._is_known = False

    def begin(self) -> float | None:
        """Announce the save and return the rate that it may take [B/s]; None: no limit."""
        if self._endpoint is None:
            return None
        connection = Connection(self._endpoint)
        try:
            return self._ask_patiently(connection)
        except HeadraceError as error:
            _log.warning("%s; the checkpoint is saved without a limit", error)
            return None
        finally:
            connection.close()

    def end(self) -> None:
        """Say that the save is over; may be called again."""
        if self._endpoint is None or not self._is_known:
            return
        self._is_known = False
        connection = Connection(self._endpoint)
        try:
            connection.send("DELETE", self._path)
            connection.receive().read()
        except HeadraceError as error:
            _log.debug("%s; it forgets the save by itself", error)
        finally:
            connection.close()

    def _ask_patiently(self, connection: Connection) -> float | None:
        """Ask until something is free, for a while."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            answer = connection.call("PUT", self._path, BurstAnswer, self._burst)
            self._is_known = True
            if answer.bytes_per_s > 0:
                return answer.bytes_per_s
            if time.monotonic() > give_up_at:
                _log.warning("%s; the checkpoint is saved without a limit", answer.reason)
                return None
            time.sleep(ASK_AGAIN_S)
