"""The page about traces: its tables are those of the schema, its blocks run as printed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader

from headrace.trace.events import COLUMNS, Kind, arrow_schema

PAGE = (REPOSITORY / "docs" / "traces.md").read_text()
TYPES = {"map of string to int64": "map<string, int64>"}


def first_cells(heading: str) -> dict[str, str]:
    """Return the first two cells of each row of the table with a heading."""
    table = PAGE[PAGE.index(heading) :].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.MULTILINE)
    return dict(rows)


def test_the_table_of_columns_is_the_schema() -> None:
    said = first_cells("| column | type |")
    assert tuple(said) == COLUMNS
    assert {name: TYPES.get(kind, kind) for name, kind in said.items()} == {
        field.name: str(field.type) for field in arrow_schema()
    }


def test_the_table_of_kinds_is_complete() -> None:
    assert list(first_cells("| kind | what took the time |")) == [kind.value for kind in Kind]


@pytest.mark.timeout(120)
def test_the_page_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(tmp_path, monkeypatch)
    reader.follow(PAGE)
    parsed = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert sum(one["name"] == "load" for one in parsed["traceEvents"]) == 200
    assert [path.suffix for path in (tmp_path / "trace").iterdir()] == [".parquet"]
