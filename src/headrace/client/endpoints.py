"""Whom a client asks, and by what token: what it was given, else what the environment says."""

from __future__ import annotations

import os

from headrace.wire.auth import TOKEN_VARIABLE
from headrace.wire.endpoint import CONTROLLER_VARIABLE, Endpoint

CONNECT_S = 2.0
"""Longest wait for a connection to the controller [s]."""

ANSWER_S = 5.0
"""A controller that takes longer to answer is away, and training goes on without it [s]."""


def find_token(given: str | None) -> str | None:
    """Return a bearer token; None: there is none.

    Args:
        given: None reads the environment variable ``HEADRACE_TOKEN``.
    """
    return (os.environ.get(TOKEN_VARIABLE) if given is None else given) or None


def find_controller(
    address: str | None, *, token: str | None = None, ca_file: str | None = None
) -> Endpoint | None:
    """Return where the controller listens; None: none is named.

    Args:
        address: None reads the environment variable ``HEADRACE_CONTROLLER``; empty: there is none.
        token: As for ``find_token``.
        ca_file: Certificates to trust besides the system's, PEM.

    Raises:
        ConfigError: the address or the token cannot be one.
    """
    address = os.environ.get(CONTROLLER_VARIABLE) if address is None else address
    if not address:
        return None
    return Endpoint(
        address=address,
        token=find_token(token),
        ca_file=ca_file,
        connect_timeout_s=CONNECT_S,
        read_timeout_s=ANSWER_S,
        service="controller",
    )
