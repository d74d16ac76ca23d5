"""Every block of the page about replication runs as printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader


def test_the_page_about_replication_runs_as_printed(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEADRACE_CONTROLLER", "HEADRACE_TOKEN"):
        monkeypatch.setenv(name, "")
    text = (REPOSITORY / "docs" / "replication.md").read_text()
    reader = Reader(tmp_path, monkeypatch)
    try:
        reader.follow(text.replace("127.0.0.1:7420", f"127.0.0.1:{port}"))
    finally:
        reader.leave()
    for root in ("evaluation", "elsewhere"):
        assert (tmp_path / f"headrace-demo/{root}/checkpoint-100/trainer_state.json").exists()
        assert not (tmp_path / f"headrace-demo/{root}/checkpoint-200").exists()
