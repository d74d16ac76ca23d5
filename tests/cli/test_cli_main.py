from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import run


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_onto_a_full_disk_is_one_line_and_no_traceback() -> None:
    command = [sys.executable, "-c", "from headrace.cli.main import main; main(['--help'])"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "headrace: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    "call", [["demo"], ["index", "/none"], ["inspect", "/none"], ["explain", "/none"]]
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    call: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*call, "--json", "/nowhere/found.json"]) == 2
    assert "there is no directory /nowhere; make it" in capsys.readouterr().err
