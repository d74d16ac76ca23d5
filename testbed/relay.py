"""The line between two sites: passes packets on, later and not faster than its rate.

A process with a TUN device in each site's switch. The kernel here may lack ``netem``, so the
delay is a queue in user space. Whole TCP segments of up to 64 KB cross as one packet (virtio
headers), which keeps the number of packets small enough for Python.

Run by `testbed.wan` as a script, without this package on the path: standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

DEVICE = "wan"
"""Name of the TUN device in both switches."""

_SET_INTERFACE, _SET_OFFLOAD = 0x400454CA, 0x400454D0
_TUN, _NO_HEADER, _VIRTIO_HEADER = 0x0001, 0x1000, 0x4000
_CHECKSUMS, _TCP4_SEGMENTS = 0x01, 0x02
_NEW_NETWORK = 0x40000000
_BIGGEST = 10 + 65_536
_AT_ONCE = 64


@dataclass(slots=True)
class Line:
    """One direction: packets leave in order, each after its time on the line and the delay.

    Pure: the time is a parameter.
    """

    bytes_per_s: float
    delay_s: float
    queue_s: float
    """A packet that would wait longer for the line is dropped: this bounds the memory [s]."""

    dropped: int = 0
    _free_at: float = 0.0
    _waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, packet: bytes, now: float) -> bool:
        """Accept a packet, or drop it if the queue is full; return whether it was accepted."""
        start = max(now, self._free_at)
        if start - now > self.queue_s:
            self.dropped += 1
            return False
        self._free_at = start + len(packet) / self.bytes_per_s
        self._waiting.append((self._free_at + self.delay_s, packet))
        return True

    def due(self, now: float) -> bytes | None:
        """Return the next packet that has arrived at the far end by now."""
        if self._waiting and self._waiting[0][0] <= now:
            return self._waiting.popleft()[1]
        return None

    def next_at(self) -> float | None:
        """Return when the next packet arrives; None if none is on its way."""
        return self._waiting[0][0] if self._waiting else None


def relay(
    ends: tuple[int, int], lines: tuple[Line, Line], clock: Callable[[], float], stop: int
) -> None:
    """Pass packets on in both directions until ``stop`` can be read.

    Args:
        ends: The TUN devices; ``lines[0]`` leads from the first to the second.
        lines: Both directions.
        clock: Monotonic time [s].
        stop: A file descriptor.
    """
    ways = ((ends[0], ends[1], lines[0]), (ends[1], ends[0], lines[1]))
    while True:
        now = clock()
        arrivals = [at for line in lines if (at := line.next_at()) is not None]
        pause = max(0.0, min(arrivals) - now) if arrivals else None
        readable, _, _ = select.select([*ends, stop], [], [], pause)
        if stop in readable:
            return
        for source, target, line in ways:
            if source in readable:
                _fetch(source, line, clock)
            _deliver(target, line, clock)


def _fetch(source: int, line: Line, clock: Callable[[], float]) -> None:
    for _ in range(_AT_ONCE):
        try:
            packet = os.read(source, _BIGGEST)
        except BlockingIOError:
            return
        line.take(packet, clock())


def _deliver(target: int, line: Line, clock: Callable[[], float]) -> None:
    while (packet := line.due(clock())) is not None:
        with contextlib.suppress(OSError):  # a link that is down, a full queue: packets get lost
            os.write(target, packet)


def open_tun(namespace: str) -> int:
    """Return a TUN device in a network namespace (a path); it lives as long as it is open."""
    enter = os.open(namespace, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(enter, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    os.close(enter)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = _TUN | _NO_HEADER | _VIRTIO_HEADER
    fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH14x", DEVICE.encode(), flags))
    fcntl.ioctl(device, _SET_OFFLOAD, _CHECKSUMS | _TCP4_SEGMENTS)
    return device


def main(argument: str) -> None:
    """Open both ends, say so on standard output, and relay until it is killed."""
    given = json.loads(argument)
    ends = open_tun(given["namespaces"][0]), open_tun(given["namespaces"][1])
    shape = given["bytes_per_s"], given["delay_s"], given["queue_s"]
    os.write(sys.stdout.fileno(), b"ready\n")
    relay(ends, (Line(*shape), Line(*shape)), time.monotonic, _never())


def _never() -> int:
    """Return a descriptor that is never readable: the relay ends by being killed."""
    kept, _ = os.pipe()
    return kept


if __name__ == "__main__":
    main(sys.argv[1])
