"""Who speaks for a job's ranks on one host: whoever holds a socket that has a name.

The name is in Linux' abstract namespace, so it is free again the moment its holder dies,
and each network namespace, which is a host of its own to the controller, has its own.
Others send their figures there; the first to find nobody there takes it over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import weakref
from collections.abc import Iterator
from typing import Literal

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a sender, as the kernel says."""

MOST_DATAGRAM_BYTES = 16 << 10
"""Longest datagram that is read [bytes]."""

Sent = Literal["sent", "busy", "nobody"]
"""``busy``: its queue is full, try again later; ``nobody``: the seat is free."""

_open_seats: weakref.WeakSet[Seat] = weakref.WeakSet()


class Seat:
    """A socket of this process, with the well-known name or one of its own. For one thread."""

    def __init__(self, job: str) -> None:
        self._well_known = f"\0headrace/{os.getuid()}/{job}"
        self._socket = _new_socket()
        self.speaks = False
        """Whether this process speaks for the host."""

        _open_seats.add(self)
        if not self.try_take():
            self._socket.bind("")

    def fileno(self) -> int:
        """Return the socket's descriptor, to wait for datagrams."""
        return self._socket.fileno()

    def try_take(self) -> bool:
        """Become the one who speaks, unless somebody else is; return whether it is so."""
        if self.speaks:
            return True
        fresh = _new_socket()
        try:
            fresh.bind(self._well_known)
        except OSError as error:
            fresh.close()
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        self._socket.close()
        self._socket, self.speaks = fresh, True
        return True

    def tell_speaker(self, message: bytes) -> Sent:
        """Send to who speaks, without waiting."""
        return self.tell(self._well_known, message)

    def tell(self, name: str, message: bytes) -> Sent:
        """Send to a name, without waiting."""
        try:
            self._socket.sendto(message, name)
        except BlockingIOError:
            return "busy"
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return "nobody"
            raise
        return "sent"

    def heard(self) -> Iterator[tuple[str, bytes]]:
        """Yield (sender's name, datagram) of what has come; strangers' are dropped."""
        while True:
            try:
                data, said, _, sender = self._socket.recvmsg(
                    MOST_DATAGRAM_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
            except BlockingIOError:
                return
            if isinstance(sender, bytes) and _user(said) == os.getuid():
                yield sender.decode(errors="surrogateescape"), data

    def close(self) -> None:
        """Leave; the name is free at once."""
        self._socket.close()
        self.speaks = False


def _new_socket() -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return sock


def _user(said: list[tuple[int, int, bytes]]) -> int | None:
    """Return the user that the kernel says a datagram is from."""
    for level, kind, data in said:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(data[: _CREDENTIALS.size])[1])
    return None


def _leave_to_parent() -> None:
    """In a forked child: let go of sockets whose names would outlive the parent."""
    for seat in list(_open_seats):
        with contextlib.suppress(OSError):
            seat.close()


os.register_at_fork(after_in_child=_leave_to_parent)
