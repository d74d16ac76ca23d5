"""The page about analyses runs as printed, and what it shows is what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader

from headrace.cli.main import run


def test_the_page_about_analyses_runs_as_printed(
    reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (REPOSITORY / "docs" / "analyze.md").read_text()
    reader.follow(text)
    assert Path("report.html").exists() and Path("figures.json").exists()
    capsys.readouterr()
    assert run(["analyze", "traces"]) == 0
    said = capsys.readouterr().out
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r"^ {0,2}([A-Za-z][a-z ]+?)(?:  |$)", shown, re.MULTILINE)
    assert len(names) == 8
    assert all(re.search(rf"^ *{name}\b", said, re.MULTILINE) for name in names)


def test_every_option_of_the_page_is_one_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = (REPOSITORY / "docs" / "analyze.md").read_text()
    assert run(["analyze", "--help"]) == 0
    described = set(re.findall(r"^\| `(--\w+)", text, re.MULTILINE))
    assert described == set(re.findall(r"^  (--\w+)", capsys.readouterr().out, re.MULTILINE)) - {
        "--help"
    }
