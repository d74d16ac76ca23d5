"""Reads single records of TFRecord files, and compares each with its checksum."""

from __future__ import annotations

from headrace.core.errors import CorruptDataError, CorruptSampleError
from headrace.dataset.fields import by_field
from headrace.dataset.location import SampleLocation
from headrace.dataset.recordframe import HEAD_BYTES, TAIL_BYTES, record_length, require_intact
from headrace.dataset.uncompressed import Uncompressed


class Records:
    """The records of all TFRecord files of a dataset. Thread-safe."""

    def __init__(self, files: Uncompressed) -> None:
        self._files = files

    def read(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the encoded features of one record.

        Raises:
            CorruptSampleError: the record is damaged, or the compressed file is.
        """
        try:
            record = self._record(location)
        except CorruptDataError as error:
            raise CorruptSampleError(f"{location.key}: {error}") from error
        members, begin = location.members, location.offset
        return by_field(
            members, [record[m.offset - begin : m.offset - begin + m.length] for m in members]
        )

    def _record(self, location: SampleLocation) -> bytes:
        """Read a record by one read: nothing but its checksum follows its last feature."""
        begin = location.offset - HEAD_BYTES
        end = max((m.offset + m.length for m in location.members), default=location.offset)
        data = self._files.read(location.file_info(), begin, end + TAIL_BYTES - begin)
        length = record_length(data[:HEAD_BYTES])
        missing = HEAD_BYTES + length + TAIL_BYTES - len(data)
        if missing > 0:  # or features without values
            data += self._files.read(location.file_info(), begin + len(data), missing)
        record = data[HEAD_BYTES : HEAD_BYTES + length]
        require_intact(record, data[HEAD_BYTES + length :][:TAIL_BYTES])
        return record
