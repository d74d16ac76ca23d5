"""Every block of the tutorial and of the README runs as printed."""

from __future__ import annotations

import pytest
from docs_reader import BLOCK, REPOSITORY, Reader


@pytest.mark.slow
def test_the_tutorial_runs_as_printed(reader: Reader, capfd: pytest.CaptureFixture[str]) -> None:
    reader.follow((REPOSITORY / "docs" / "tutorial.md").read_text())
    said = capfd.readouterr().out
    assert "was replaced by sample" in said
    assert "made by agents" in said
    assert "loss" in said


def test_the_readmes_ten_lines_run_as_printed(
    reader: Reader, capfd: pytest.CaptureFixture[str]
) -> None:
    text = (REPOSITORY / "README.md").read_text()
    (program,) = [block for language, block in BLOCK.findall(text) if language == "python"]
    assert 9 <= len(program.splitlines()) <= 12
    reader.follow(f"```python\n{program}```\n")
    assert "<Batch step" in capfd.readouterr().out
