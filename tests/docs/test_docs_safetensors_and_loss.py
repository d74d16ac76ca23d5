"""The pages about safetensors and about watching the loss print what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader


@pytest.mark.parametrize("page", ["safetensors.md", "loss.md"])
def test_the_examples_print_what_the_page_shows(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (REPOSITORY / "docs" / page).read_text()
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    Reader(tmp_path, monkeypatch).follow(text)
    assert capsys.readouterr().out == shown
