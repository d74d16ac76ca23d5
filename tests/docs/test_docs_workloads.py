"""The pages about models of workloads and about anonymising: what they print runs and is so."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from docs_reader import REPOSITORY

from headrace.analysis.workload.model import SHIPPED, Model, find_model
from headrace.analysis.workload.synthesis import Synthesis
from headrace.cli.main import run
from headrace.report.toml import parse_toml
from headrace.trace.events import COLUMNS

WORKLOADS = (REPOSITORY / "docs" / "workloads.md").read_text()
ANONYMISE = (REPOSITORY / "docs" / "anonymise.md").read_text()


def follow(page: str) -> None:
    """Type the commands of a page; those of headrace without a process for each."""
    for line in re.findall(r"^\$ (.*)$", page, re.MULTILINE):
        program, *arguments = shlex.split(line)
        if program == "headrace":
            assert run(arguments) == 0, line
        else:
            subprocess.run([program, *arguments], timeout=20, check=True)


def test_the_page_about_workloads_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    follow(WORKLOADS)
    assert (tmp_path / "synthetic" / "MM-L-seed-7.parquet").is_file()
    assert (tmp_path / "copy.toml").is_file()


def test_the_page_about_anonymising_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    follow(ANONYMISE)
    assert pq.read_table(tmp_path / "a.parquet").num_rows


def test_the_model_that_is_printed_is_one() -> None:
    (printed,) = re.findall(r"^```toml\n(.*?)^```$", WORKLOADS, re.MULTILINE | re.DOTALL)
    model = parse_toml(printed, Model, source="workloads.md")
    assert next(Synthesis(model, steps=1).batches()).num_rows


def test_the_table_of_reference_workloads_is_that_of_the_models() -> None:
    rows = re.findall(r"^\| ((?:T|MM)-\w) \|([^|]*)\| ([\d,]+) \|", WORKLOADS, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(SHIPPED)
    for name, what, ranks in rows:
        model = find_model(name)
        assert model.ranks == int(ranks.replace(",", ""))
        assert what.split(",")[0].strip() == model.title.split(",")[0]


def test_the_table_says_what_is_done_to_every_column() -> None:
    table = ANONYMISE[ANONYMISE.index("| column |") :].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()]
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(COLUMNS)
