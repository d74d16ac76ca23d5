"""The example of how bandwidth is given runs, and prints what the page shows."""

from __future__ import annotations

import re

import pytest
from docs_reader import REPOSITORY, Reader


def test_the_example_prints_what_the_page_shows(
    reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (REPOSITORY / "docs" / "reservation.md").read_text()
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    reader.follow(text)
    assert capsys.readouterr().out == shown
