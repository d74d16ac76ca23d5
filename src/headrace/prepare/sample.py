"""One sample, read from storage and brought to a cut: the same code on both sides.

Agents' workers and loaders call this and nothing else, so a sample's bytes cannot
depend on who made it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase

from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.core.parts import WHOLE, SamplePart
from headrace.core.record import Record, Value
from headrace.dataset.location import SampleLocation
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.transform.ops.audio import DecodeAudio
from headrace.transform.partial import divided_by, kept_of, program_of
from headrace.transform.program import Program

STREAMED = frozenset({"video"})
"""Fields whose bytes are read as the decoder asks for them, not as a whole; long sound is, too, if
a pipeline takes a cut of it."""

LONG_BYTES = 4 << 20
"""Shorter sound is read at once: that takes less time than several small requests [bytes]."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record at a cut, and what it took."""

    record: Record
    cut: int
    read_s: float
    """Time spent fetching bytes before the first op [s]; streamed fields count as transform."""

    transform_s: float


class Preparer:
    """Brings samples of one source through one program. Thread-safe."""

    def __init__(self, program: Program, reader: SampleReader) -> None:
        self.program = program
        self._reader = reader
        self._cut_fields = _cut_fields(program)

    def raw(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the sample's encoded fields, as a raw frame carries them.

        Raises:
            StaleIndexError: the file changed since it was indexed.
            StorageError: the bytes cannot be read.
        """
        return self._reader.read_raw(location)

    def raw_run(self, locations: Sequence[SampleLocation]) -> list[dict[str, bytes]]:
        """Return the encoded fields of several samples of one file that lie close together.

        Raises: as ``raw``.
        """
        return self._reader.read_run(locations)

    def require_unchanged(self, location: SampleLocation) -> None:
        """Compare a sample's file with what was indexed.

        Raises:
            StaleIndexError: it changed, or is gone.
        """
        self._reader.require_unchanged(location)

    def prepare(
        self, location: SampleLocation, key: SampleKey, *, stop: int, part: SamplePart = WHOLE
    ) -> Prepared:
        """Read a sample, or what is needed for a part of it, and apply its first ``stop`` ops.

        Raises:
            CorruptSampleError: the bytes cannot be decoded; every host would find so. Of a part
                it says nothing: make the whole then.
            StaleIndexError: the file changed since it was indexed.
            StorageError: the bytes cannot be read.
        """
        begin = time.perf_counter()
        record = self._reader.open_record(location, self._streamed(location))
        read_s = time.perf_counter() - begin
        try:
            if part.is_whole:
                done = _run(self.program, record, key, start=0, stop=stop, read_s=read_s)
                _read_streams(done.record)
            else:
                done = self._run_part(record, key, part, stop=stop, read_s=read_s)
        finally:
            _close_streams(record)
        return done

    def _streamed(self, location: SampleLocation) -> frozenset[str]:
        return STREAMED.union(
            member.field
            for member in location.members
            if member.field in self._cut_fields and member.length > LONG_BYTES
        )

    def _run_part(
        self, record: Record, key: SampleKey, part: SamplePart, *, stop: int, read_s: float
    ) -> Prepared:
        decoder = divided_by(self.program, stop)
        if decoder is None or decoder.fields[0] not in record:
            raise CorruptSampleError("the sample cannot be made in parts; make it as a whole")
        program = program_of(self.program, part)
        done = _run(program, record, key, start=0, stop=stop, read_s=read_s)
        return replace(done, record=kept_of(done.record, part, decoder.fields[0]))


def finish_raw(
    program: Program,
    location: SampleLocation,
    fields: Mapping[str, bytes],
    key: SampleKey,
    *,
    stop: int,
) -> Prepared:
    """Apply the first ``stop`` ops to the encoded fields of a raw frame.

    Raises:
        CorruptSampleError: the bytes cannot be decoded; every host would find so.
    """
    record = decode_fields(location, dict(fields))
    return _run(program, record, key, start=0, stop=stop, read_s=0.0)


def finish_cut(
    program: Program, record: Record, key: SampleKey, *, cut: int, stop: int
) -> Prepared:
    """Apply the ops from ``cut`` to ``stop`` to a record that an agent brought to ``cut``."""
    return _run(program, record, key, start=cut, stop=stop, read_s=0.0)


def _cut_fields(program: Program) -> frozenset[str]:
    """Return the fields of sound that a program takes only a cut of."""
    return frozenset(
        field
        for op in program.ops
        if isinstance(op, DecodeAudio) and op.seconds is not None
        for field in op.fields
    )


def _run(
    program: Program, record: Record, key: SampleKey, *, start: int, stop: int, read_s: float
) -> Prepared:
    begin = time.perf_counter()
    done = program.run(record, key, start=start, stop=stop)
    return Prepared(record=done, cut=stop, read_s=read_s, transform_s=time.perf_counter() - begin)


def _read_streams(record: Record) -> None:
    """Put bytes in the place of streams that no op has decoded."""
    for name, stream in record.items():
        if isinstance(stream, BufferedIOBase):
            stream.seek(0)
            record[name] = stream.read()


def _close_streams(record: Mapping[str, Value]) -> None:
    for stream in record.values():
        if isinstance(stream, BufferedIOBase):
            stream.close()
