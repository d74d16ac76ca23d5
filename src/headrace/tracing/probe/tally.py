"""Adds up what one load of a thread opened and read."""

from __future__ import annotations

import threading


class Tally:
    """Of one load."""

    __slots__ = (
        "fetched_bytes",
        "file",
        "opening_ns",
        "opens",
        "read_bytes",
        "reading_ns",
        "reads",
    )

    def __init__(self) -> None:
        self.opens = 0
        self.opening_ns = 0
        self.reads = 0
        self.reading_ns = 0
        self.read_bytes = 0
        """Of files of the operating system [bytes]."""

        self.fetched_bytes = 0
        """By other ways, which the kernel does not count as reads of files [bytes]."""

        self.file: str | None = None
        """The one that was opened or read last."""

    def opened(self, file: str | None, took: int) -> None:
        """Add an opened file [ns]."""
        self.opens += 1
        self.opening_ns += took
        self.file = file or self.file

    def read(self, file: str | None, took: int, nbytes: int) -> None:
        """Add a read [ns, bytes]."""
        self.reads += 1
        self.reading_ns += took
        self.read_bytes += nbytes
        self.file = file or self.file

    def fetched(self, file: str | None, took: int, nbytes: int) -> None:
        """Add a request to storage of another kind [ns, bytes]."""
        self.reads += 1
        self.reading_ns += took
        self.fetched_bytes += nbytes
        self.file = file or self.file


class Tallies(threading.local):
    """The tally of the load that the calling thread is at."""

    current: Tally | None = None
