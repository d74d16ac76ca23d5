"""Every block of the page about the simulator runs as printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from docs_reader import REPOSITORY, Reader


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_about_the_simulator_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    reader = Reader(tmp_path, monkeypatch)
    reader.follow((REPOSITORY / "docs" / "simulator.md").read_text())
    found = msgspec.json.decode((tmp_path / "figures.json").read_bytes())
    assert found["policies"].keys() == {"static", "predictive"}
    assert {path.name for path in (tmp_path / "drawings").iterdir()} == {"failures.svg", "idle.svg"}
