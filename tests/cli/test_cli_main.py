from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_onto_a_full_disk_is_one_line_and_no_traceback() -> None:
    command = [sys.executable, "-c", "from headrace.cli.main import main; main(['--help'])"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "headrace: [Errno 28] No space left on device\n"
