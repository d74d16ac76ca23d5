"""Tells the controller, from a job's start-up, that its ranks are about to read a checkpoint."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from headrace.client.endpoints import find_controller
from headrace.core.errors import ConfigError, HeadraceError
from headrace.wire.connection import Connection
from headrace.wire.endpoint import CONTROLLER_VARIABLE, Endpoint
from headrace.wire.hotspots import (
    DEFAULT_ETA_S,
    DEFAULT_LEASE_S,
    HotspotAsked,
    HotspotRenewed,
    HotspotView,
    absolute_url,
)

logger = logging.getLogger("headrace.client")

_POLL_S = 0.25
_PATH = "/v1/hotspots"
_OVER = ("gone", "failed", "lowering")
_READY = ("held", "skipped")

T = TypeVar("T")


def announce(
    url: str,
    *,
    world_size: int | None = None,
    hosts: int | None = None,
    files: Sequence[str] = (),
    eta_s: float = DEFAULT_ETA_S,
    lease_s: float = DEFAULT_LEASE_S,
    job: str = "",
    controller: str | None = None,
    token: str | None = None,
    ca_file: str | None = None,
    strict: bool = False,
) -> Announcement:
    """Announce that all ranks are about to read a checkpoint, so that its hot files get copies.

    Every rank may call it: only rank 0 (``RANK`` in the environment; none: this process) says
    anything. It takes at most a few seconds, and what goes wrong is logged, not raised.

    Args:
        url: The checkpoint's folder.
        world_size: Ranks that read; None: ``WORLD_SIZE``.
        hosts: Hosts they run on, where each host reads once what its ranks share, as headrace's
            readers do; None: what ``LOCAL_WORLD_SIZE`` tells, else each rank reads for itself.
        files: Files that every rank reads whole; none: what the checkpoint's metadata tells.
        eta_s: Time until they read [s].
        lease_s: The copies are given back after this time, unless renewed or released [s].
        job: Whose announcement it is, for people.
        controller: Its address; None: ``HEADRACE_CONTROLLER``.
        token: Bearer token; None: ``HEADRACE_TOKEN``.
        ca_file: Certificates to trust besides the system's, PEM.
        strict: Raise what goes wrong.

    Raises:
        HeadraceError: ``strict``, and no controller is named, or it is away, or refuses.
    """
    environment = os.environ
    if environment.get("RANK", "0") != "0":
        return Announcement(None, strict=strict)
    told = Announcement(lambda: _endpoint(controller, token, ca_file), strict=strict)

    def asked() -> HotspotAsked:
        ranks = _ranks(environment, world_size)
        return HotspotAsked(
            url=absolute_url(url),
            world_size=ranks,
            hosts=hosts or _hosts(environment, ranks),
            files=tuple(files),
            job=job,
            eta_s=eta_s,
            lease_s=lease_s,
        )

    told._begin(asked)
    return told


class Announcement:
    """What was announced; at the end of a ``with`` block it is released. For one thread.

    Made by ``announce``. On ranks that said nothing, and where nothing could be announced, all
    of it does nothing.
    """

    def __init__(self, endpoint: Callable[[], Endpoint] | None, *, strict: bool) -> None:
        self.id: str | None = None
        """Its name at the controller; None: nothing was announced by this process."""

        self.error = ""
        """Why it could not be announced, or its checkpoint not be read, once that is known."""

        self._endpoint = endpoint
        self._connection: Connection | None = None
        self._strict = strict

    def view(self) -> HotspotView | None:
        """Return how it is; None where nothing was announced, or the controller is away."""
        return self._tried(lambda: self._checked(self._call("GET", self._path)))

    def ready(self, timeout_s: float = 0.0) -> bool:
        """Wait until all copies that are worth making are there; return whether they are.

        True as well where nothing was announced: then there is nothing to wait for. Training
        may start in any case.

        Args:
            timeout_s: Longest wait [s].
        """
        until = time.monotonic() + timeout_s
        while self.id is not None:
            view = self.view()
            if view is not None and view.state in _READY:
                return True
            over = view is not None and view.state in _OVER
            if over or time.monotonic() >= until:
                return False
            time.sleep(min(_POLL_S, max(until - time.monotonic(), 0.0)))
        return not self.error

    def renew(self, lease_s: float = DEFAULT_LEASE_S) -> None:
        """Hold the copies for so long from now [s]."""
        self._tried(lambda: self._call("PUT", self._path, HotspotRenewed(lease_s=lease_s)))

    def release(self) -> None:
        """Let the copies be given back; not an error a second time."""
        try:
            self._tried(lambda: self._checked(self._call("DELETE", self._path)))
        finally:
            self.id = None
            if self._connection is not None:
                self._connection.close()

    def __enter__(self) -> Announcement:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    @property
    def _path(self) -> str:
        return f"{_PATH}/{self.id}"

    def _begin(self, asked: Callable[[], HotspotAsked]) -> None:
        """Announce."""
        try:
            self.id = self._call("POST", _PATH, asked()).id
        except HeadraceError as error:
            self.error = str(error)
            if self._strict:
                raise
            logger.warning("the checkpoint is not announced: %s; its files stay as they are", error)

    def _checked(self, view: HotspotView) -> HotspotView:
        """Note why the checkpoint cannot be read; the controller found out after its answer."""
        if view.state == "failed" and not self.error:
            self.error = view.reason
            if self._strict:
                raise HeadraceError(view.reason)
            logger.warning("the checkpoint cannot be announced: %s", view.reason)
        return view

    def _tried(self, ask: Callable[[], T]) -> T | None:
        if self.id is None:
            return None
        try:
            return ask()
        except HeadraceError as error:
            if self._strict:
                raise
            logger.warning("hotspot %s: %s", self.id, error)
            return None

    def _call(
        self, method: str, path: str, message: HotspotAsked | HotspotRenewed | None = None
    ) -> HotspotView:
        if self._connection is None:
            assert self._endpoint is not None, "ranks but the first announce nothing"
            self._connection = Connection(self._endpoint())
        return self._connection.call(method, path, HotspotView, message)


def _endpoint(controller: str | None, token: str | None, ca_file: str | None) -> Endpoint:
    endpoint = find_controller(controller, token=token, ca_file=ca_file)
    if endpoint is None:
        raise ConfigError(
            f"no controller is named; give controller='http://HOST:PORT', or set "
            f"{CONTROLLER_VARIABLE}"
        )
    return endpoint


def _ranks(environment: Mapping[str, str], given: int | None) -> int:
    ranks = given or _number(environment, "WORLD_SIZE")
    if ranks is None:
        raise ConfigError("no world_size is given and WORLD_SIZE is not set; say how many ranks")
    return ranks


def _hosts(environment: Mapping[str, str], ranks: int) -> int | None:
    local = _number(environment, "LOCAL_WORLD_SIZE")
    return -(-ranks // local) if local else None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise ConfigError(f"{name}={text!r} in the environment must be a whole number")
    return int(text) if text else None
