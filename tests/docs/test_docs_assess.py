"""The page about assessing tells every option of the command, every answer, and nothing else."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from docs_reader import REPOSITORY

from headrace.assess.outlook import Advice
from headrace.cli.main import run

PAGE = (REPOSITORY / "docs" / "assess.md").read_text()


def test_every_option_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["assess", "--help"]) == 0
    known = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) == known - {"--help"}


def test_every_answer_is_told() -> None:
    table = PAGE.partition("| answer | means |")[2].partition("## ")[0]
    assert len(re.findall(r"^\| [a-z]", table, re.MULTILINE)) == len(get_args(Advice))
