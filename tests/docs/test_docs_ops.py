"""The page about ops prints what it shows, and names every op."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_reader import BLOCK, REPOSITORY, save_files

from headrace import ops
from sounds import sound

PAGE = REPOSITORY / "docs/ops.md"


def test_the_examples_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sounds").mkdir()
    for seconds in (0.5, 0.6, 0.7, 0.8):
        data = sound("wav", "pcm_s16le", seconds=seconds, rate=16_000, channels=1)
        (tmp_path / f"sounds/{seconds}.wav").write_bytes(data)
    text = PAGE.read_text()
    save_files(text, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    for _, block in BLOCK.findall(text):
        exec(compile(block, "ops.md", "exec"), names)
    shown = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out == "".join(shown)


def test_every_op_is_named() -> None:
    text = PAGE.read_text()
    assert [name for name in ops.__all__ if f"`{name}(" not in text] == []
