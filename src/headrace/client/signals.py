"""Says that a checkpoint is to be looked at soon: training went wrong, or somebody wonders.

With a controller, it is told; without one a small file in the checkpoints' root is, which
``headrace replicate`` sees there.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import threading
import time
from contextlib import suppress
from functools import partial

import msgspec

from headrace.client.endpoints import find_controller
from headrace.core.errors import ConfigError, HeadraceError, NotFoundError
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.wire.connection import Connection
from headrace.wire.endpoint import CONTROLLER_VARIABLE, Endpoint
from headrace.wire.hotspots import absolute_url
from headrace.wire.replication import SIGNALS, SignalSent, SignalTaken

logger = logging.getLogger("headrace.client")

CHECKPOINTS_VARIABLE = "HEADRACE_CHECKPOINTS"
"""Environment variable that holds the root of checkpoints where none is given."""

KEEP_S = 86_400.0
"""Signals in a root that are older are removed by whoever sends the next [s]."""

LAST_S = 5.0
"""Longest wait for a signal that is on its way when the process ends [s]."""


def signal(
    kind: str,
    *,
    step: int | None = None,
    job: str | None = None,
    source: str | None = None,
    controller: str | None = None,
    token: str | None = None,
    wait_s: float = 0.0,
) -> bool:
    """Let the checkpoint that an anomaly concerns be copied before all others.

    Every rank may call it, in the middle of training: only rank 0 (``RANK`` in the environment;
    none: this process) says anything, and a thread does; what goes wrong is logged, not raised.

    Args:
        kind: What happened, such as ``loss_spike``; for people.
        step: At which it happened; None: the newest checkpoint is meant.
        job: Whose training it is, for people.
        source: Root of the checkpoints; None: ``HEADRACE_CHECKPOINTS``, else with a controller
            those of all its replications.
        controller: Its address; None: ``HEADRACE_CONTROLLER``, else a file in ``source`` tells.
        token: Bearer token; None: ``HEADRACE_TOKEN``.
        wait_s: Wait for so long until it is told [s].

    Returns:
        Whether it is known to be told.
    """
    if os.environ.get("RANK", "0") != "0":
        return False
    told = threading.Event()
    sent = SignalSent(kind=kind, step=step, job=job, source=source, sent_at=time.time())

    def send() -> None:
        try:
            send_signal(sent, controller=controller, token=token)
            told.set()
        except (HeadraceError, OSError) as error:
            logger.warning("nobody is told of %s: %s", kind, error)
        finally:
            atexit.unregister(wait)

    thread = threading.Thread(target=send, name="headrace-signal", daemon=True)
    wait = partial(thread.join, LAST_S)  # training that went wrong may end right after this
    atexit.register(wait)
    thread.start()
    thread.join(wait_s)
    return told.is_set()


def send_signal(
    sent: SignalSent,
    *,
    controller: str | None = None,
    token: str | None = None,
    ca_file: str | None = None,
) -> tuple[str, ...]:
    """Send a signal, and return the names of the replications that heed it.

    None heeds it where it was written to a root: whoever copies from there sees it.

    Args:
        sent: The signal.
        controller: As for ``signal``, as are the others.
        token: Bearer token.
        ca_file: Certificates to trust besides the system's, PEM.

    Raises:
        ConfigError: neither a controller nor a root is named.
        RemoteError: the controller does not answer or refuses, or the root cannot be written.
    """
    root = sent.source or os.environ.get(CHECKPOINTS_VARIABLE)
    root = absolute_url(root) if root else None
    sent = msgspec.structs.replace(sent, source=root)
    endpoint = find_controller(controller, token=token, ca_file=ca_file)
    if endpoint is not None:
        return _tell_controller(endpoint, sent)
    if root is None:
        raise ConfigError(
            "a signal needs somebody to tell: name a controller (controller, "
            f"${CONTROLLER_VARIABLE}) or the root of the checkpoints (source, "
            f"${CHECKPOINTS_VARIABLE})"
        )
    _leave_at_root(root, sent)
    return ()


def _tell_controller(endpoint: Endpoint, sent: SignalSent) -> tuple[str, ...]:
    connection = Connection(endpoint)
    try:
        return connection.call("POST", "/v1/signals", SignalTaken, sent).replications
    finally:
        connection.close()


def _leave_at_root(root: str, sent: SignalSent) -> None:
    storage = open_storage(root)
    try:
        name = f"{sent.sent_at:.3f}-{secrets.token_hex(4)}.json"
        storage.write(f"{SIGNALS}/{name}", msgspec.json.encode(sent))
        with suppress(NotFoundError):
            _remove_old(storage, sent.sent_at - KEEP_S)
    finally:
        storage.close()


def _remove_old(storage: Storage, before: float) -> None:
    """Remove signals that were sent before some time [s since 1970], as their names tell."""
    for info in list(storage.list(SIGNALS)):
        sent_at = info.path.rpartition("/")[2].partition("-")[0]
        with suppress(ValueError):
            if float(sent_at) < before:
                storage.delete(info.path)
