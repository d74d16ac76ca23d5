"""What reads a trace of some format as events, and what it notes about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

BATCH_EVENTS = 65_536
"""Events of a batch, about: enough for columns to pay, few enough for memory [events]."""

HEAD_BYTES = 65_536
"""So much of a file, decompressed where it is gzip, an importer sees to recognise it [bytes]."""

NOTES = 20
"""Notes of one kind that are kept word by word; further ones are counted."""


@dataclass(slots=True)
class Notes:
    """What a reader of the result has to know; one object for all files of a trace."""

    unknown: dict[str, str] = field(default_factory=dict)
    """What the format cannot tell → why; figures that need it are left out."""

    problems: list[str] = field(default_factory=list)
    """Damage that was passed over, each with its file and line or offset; the result is partial."""

    further_problems: int = 0

    lost_events: int = 0
    """That were recorded and are missing: no room for them on disk, or no time to write them."""

    left_out: list[str] = field(default_factory=list)
    """Files of a directory that are no traces, the first :data:`NOTES`."""

    further_left_out: int = 0

    is_relative: bool = False
    """Whether times count from an arbitrary moment, so that hosts cannot be laid side by side."""

    def problem(self, text: str) -> None:
        """Note damage that was passed over."""
        if len(self.problems) < NOTES:
            self.problems.append(text)
        else:
            self.further_problems += 1

    def leave_out(self, path: Path) -> None:
        """Note a file that is no trace."""
        if len(self.left_out) < NOTES:
            self.left_out.append(str(path))
        else:
            self.further_left_out += 1

    @property
    def is_partial(self) -> bool:
        """Whether something of what was recorded could not be read."""
        return bool(self.problems) or self.lost_events > 0


class Importer(Protocol):
    """Reads one format. Has no state; memory does not grow with the trace."""

    @property
    def name(self) -> str:
        """What the format is called: ``DFTracer``."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell whether a file, or a directory (with an empty head), is of this format."""

    def read(
        self, path: Path, notes: Notes, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events, with the columns of :func:`headrace.trace.events.arrow_schema`.

        Args:
            path: Of the file or directory.
            notes: To write into.
            advanced: Called with the bytes of the file that were read since the last call, as
                they lie on disk.

        Raises:
            CorruptDataError: nothing of it can be read; says where (line or offset) and what
                was expected there.
            StorageError: the file cannot be read.
        """
