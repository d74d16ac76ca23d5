"""The names and addresses by which a storage system may know this host."""

from __future__ import annotations

import socket
import threading

import psutil

LOOKUP_S = 2.0
"""Longest wait for a name service [s]."""


def own_hosts() -> tuple[str, ...]:
    """Return this host's name, its full name, and its addresses.

    Loopback names and addresses are left out: every host has them.
    """
    named = [socket.gethostname(), _full_name()]
    families = (socket.AF_INET, socket.AF_INET6)
    addresses = [
        found.address
        for interface in psutil.net_if_addrs().values()
        for found in interface
        if found.family in families and not _is_loopback(found.address)
    ]
    return tuple(dict.fromkeys(name for name in named if not _is_loopback(name))) + tuple(addresses)


def _is_loopback(name: str) -> bool:
    return not name or name.startswith(("localhost", "127.", "fe80:")) or name == "::1"


def _full_name() -> str:
    """Ask the name service, which may not answer for long."""
    found = [""]

    def ask() -> None:
        found[0] = socket.getfqdn()

    asking = threading.Thread(target=ask, name="headrace-own-name", daemon=True)
    asking.start()
    asking.join(LOOKUP_S)
    return found[0]
