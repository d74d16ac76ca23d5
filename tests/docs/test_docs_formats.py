"""The page about formats prints what it shows, on files of the formats' own writers."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from docs_reader import BLOCK, REPOSITORY
from PIL import Image

from dataset.format_writers import write_mds, write_records, write_saved, write_tokens
from headrace.cli.main import run


def test_the_examples_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = io.BytesIO()
    Image.new("RGB", (10, 9)).save(target, "JPEG")
    jpeg = target.getvalue()
    columns = {"img": "jpeg", "label": "int", "score": "float32"}
    rows = [{"img": jpeg, "label": n, "score": np.float32(n)} for n in range(8)]
    write_mds(tmp_path / "mds", columns, rows)
    (tmp_path / "tokens").mkdir()
    write_tokens(tmp_path / "tokens/x", [[range(n)] for n in range(9)], np.uint16)
    examples = [
        {"image/encoded": (jpeg, "byte"), "image/class/label": (n, "int"), "weight": (n, "float")}
        for n in range(8)
    ]
    write_saved(tmp_path / "saved", [jpeg] * 8)
    write_records(tmp_path / "records/train-00000-of-00001", examples)

    text = (REPOSITORY / "docs/formats.md").read_text()
    printed = []
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, block in BLOCK.findall(text):
        if language == "console":
            assert run([*block.split()[2:], "--json", str(tmp_path / "facts")]) == 0
            capsys.readouterr()
        else:
            exec(compile(block, "formats.md", "exec"), names)
            printed.append(capsys.readouterr().out)
    assert "".join(printed) == shown
