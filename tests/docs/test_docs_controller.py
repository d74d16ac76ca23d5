"""Every block of the page about the controller runs as printed, but for its port."""

from __future__ import annotations

import pytest
from docs_reader import REPOSITORY, Reader


@pytest.mark.slow
def test_the_page_about_the_controller_runs_as_printed(
    reader: Reader, port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_CONTROLLER", "")
    text = (REPOSITORY / "docs" / "controller.md").read_text()
    reader.follow(text.replace("127.0.0.1:7410", f"127.0.0.1:{port}"))
    said = capfd.readouterr().out
    assert "ControlStatistics(" in said
    assert "away=False" in said
    assert "score=None" not in said
