"""The page about checkpoints runs as printed, and shows what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader

from headrace.cli.main import run


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_the_page_about_checkpoints_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (REPOSITORY / "docs" / "checkpoints.md").read_text()
    Reader(tmp_path, monkeypatch).follow(text)
    assert "__0_0.distcp 0 " in capsys.readouterr().out
    assert run(["checkpoint", "plan", "runs/step-100", "--world-size", "64", "--hosts", "8"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shown.splitlines() == lines[: len(shown.splitlines())]
