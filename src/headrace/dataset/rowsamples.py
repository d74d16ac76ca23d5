"""Makes samples of the rows of a table, whatever format holds it."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.core.errors import CorruptDataError
from headrace.core.numbered import numbered, shared_name
from headrace.dataset.cost import text_cost
from headrace.dataset.interleaved import joined, require_places
from headrace.dataset.location import WHOLE_FILE, Container, Kind, Member, SampleLocation
from headrace.dataset.media import leading_kind
from headrace.dataset.namedfiles import file_named
from headrace.dataset.probe import Headers, joint, probe
from headrace.dataset.rowcolumns import FieldColumn
from headrace.dataset.scan import ScanSource
from headrace.dataset.turns import turns_as


@dataclass(frozen=True, slots=True)
class Part:
    """One value of a row."""

    field: str
    column: FieldColumn
    place: int
    """Where it stands in the row's list; 0 where there is none."""

    value: object
    """Bytes, a text or a number; None if it is null."""

    file: str = ""
    """Path of the file that it is, where the row only names one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file."""

    number: int
    """In the file."""

    block: int
    """Row group or record batch; -1 where values are ranges of the file."""

    row: int
    """In the block."""

    values: Mapping[str, object]
    """By the path of the column."""


class RowSamples:
    """Makes the samples of one file."""

    def __init__(
        self,
        source: ScanSource,
        container: Container,
        columns: Sequence[FieldColumn],
        classes: Sequence[str],
    ) -> None:
        self._source = source
        self._container = container
        self._columns = columns
        self._classes = len(classes)
        self._folder = posixpath.dirname(source.file.path)
        self._kind = leading_kind({column.field for column in columns})
        self._has_lists = any(column.form == "list" for column in columns)
        self._has_turns = any(column.form == "turns" for column in columns)

    def sample(self, row: Row, member_of: Callable[[Part], Member]) -> SampleLocation:
        """Return the sample that a row is.

        Args:
            row: The row.
            member_of: Says where a value lies; not asked for files that are only named.
        """
        try:
            parts = self._parts(row.values)
            members = tuple(
                Member(field=part.field, name=part.file, offset=WHOLE_FILE, length=0)
                if part.file
                else member_of(part)
                for part in parts
            )
            kind = leading_kind({part.field for part in parts})
            headers = _headers_of(kind, parts)
        except CorruptDataError as error:
            kind, parts, members, headers = self._kind, [], (), Headers(broken=str(error))
        file = self._source.file
        return self._source.sample(
            key=f"{file.path}#{row.number}",
            kind=kind,
            container=self._container,
            offset=next((m.offset for m in members if m.offset != WHOLE_FILE), 0),
            length=sum(_encoded_length(part.value) for part in parts),
            members=members,
            row=row.row,
            block=row.block,
            label=self._label(parts),
            headers=headers,
        )

    def _parts(self, values: Mapping[str, object]) -> list[Part]:
        """Return the values of a row; what is null is left out, unless the sample is of its kind.

        A conversation may be about no medium.

        Raises:
            CorruptDataError: they make no sample.
        """
        found = [part for column in self._columns for part in self._of_column(column, values)]
        needed = None if self._has_turns else self._kind
        parts = [p for p in found if p.value is not None or p.file or p.field == needed]
        if all(part.field == "label" for part in parts):
            raise CorruptDataError("there is neither a medium nor a text in this row")
        if self._has_lists:
            _require_places(parts)
        return parts

    def _of_column(self, column: FieldColumn, values: Mapping[str, object]) -> Iterator[Part]:
        value = values[column.path]
        if column.form == "value":
            file = values.get(column.file) if value is None else None
            named = file_named(self._folder, file) if isinstance(file, str) else ""
            yield Part(column.field, column, 0, value, named)
        elif column.form == "pieces":
            text = joined(value) if isinstance(value, list) else None
            yield Part(column.field, column, 0, text)
        elif column.form == "turns":
            said = turns_as(column.field, value) if isinstance(value, list) else None
            yield Part(column.field, column, 0, said)
        else:
            elements = enumerate(value if isinstance(value, list) else ())
            there = [(place, element) for place, element in elements if self._counts(element)]
            for number, (place, element) in enumerate(there):
                data, file = _content(element)
                named = file_named(self._folder, file) if data is None and file else ""
                yield Part(numbered(column.field, number), column, place, data, named)

    def _counts(self, element: object) -> bool:
        """Whether a list's element is a picture; URLs are none, unless texts have their places."""
        pieces = any(column.form == "pieces" for column in self._columns)
        return element is not None and (
            pieces or not isinstance(element, str) or "://" not in element
        )

    def _label(self, parts: Sequence[Part]) -> int | None:
        labels = [part.value for part in parts if part.field == "label"]
        known = bool(labels) and isinstance(labels[0], int) and 0 <= labels[0] < self._classes
        return labels[0] if known else None  # type: ignore[return-value]


def _require_places(parts: Sequence[Part]) -> None:
    texts = [part.value for part in parts if part.field == "text"]
    pictures = sum(part.column.form == "list" for part in parts)
    if pictures:
        require_places(str(texts[0]) if texts else None, pictures)


def _headers_of(kind: Kind, parts: Sequence[Part]) -> Headers:
    main = (part for part in parts if shared_name(part.field) == kind)
    return joint({part.field: _headers(kind, part) for part in main})


def _content(element: object) -> tuple[object, str]:
    """Return the bytes of a list's element, and the name of the file that it is without them."""
    if isinstance(element, dict):
        return element.get("bytes"), element.get("path") or ""
    return (None, element) if isinstance(element, str) else (element, "")


def _headers(kind: Kind, part: Part) -> Headers:
    value = part.value
    if part.file:
        return Headers()
    if isinstance(value, bytes):
        return probe(kind, lambda: io.BytesIO(value))
    if isinstance(value, str):
        return Headers(cost_s=text_cost(len(value)))
    return Headers(broken=f"the {kind} is null in this row")


def _encoded_length(value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    return 0 if value is None else len(str(value).encode())
