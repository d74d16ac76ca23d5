"""What a host is called to the controller: its own name, told apart where it is several."""

from __future__ import annotations

import socket
from pathlib import Path

_MOST_LETTERS = 64


def host_name() -> str:
    """Return a name that no other host of a job has.

    Network namespaces of one machine are hosts of their own, as containers are, and may all bear
    the machine's name: the namespace's number tells them apart.
    """
    name = socket.gethostname()[:_MOST_LETTERS] or "localhost"
    try:
        return f"{name}-{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return name
