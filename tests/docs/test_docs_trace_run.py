"""The page about recording programs: its script is recorded and analysed as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader

from headrace.trace.opening import open_trace

PAGE = (REPOSITORY / "docs" / "trace-run.md").read_text()
SCRIPT = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(120)
def test_the_page_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script,) = SCRIPT.findall(PAGE)
    (tmp_path / "train.py").write_text(script)
    Reader(tmp_path, monkeypatch).follow(SCRIPT.sub("", PAGE))
    events = [
        event for batch in open_trace(["traces/first"]).batches() for event in batch.to_pylist()
    ]
    kinds = [event["kind"] for event in events]
    assert (kinds.count("wait"), kinds.count("checkpoint_save")) == (60, 2)
    assert {event["file"] for event in events if event["name"] == "read"} == {
        str(tmp_path / "data" / f"{number:03}.bin") for number in range(240)
    }
