"""Does what a reader of the documents does: types commands, enters Python blocks."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```python title=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block that is a file of its own, with its name."""

COMMAND_S = 120
"""Longest command: a cluster that starts on a busy machine [s]."""


def save_files(text: str, folder: Path) -> None:
    """Save the files that a page shows, as a reader would."""
    for name, block in FILE.findall(text):
        (folder / name).write_text(block)


class Reader:
    """Types commands into a shell and blocks into one interpreter."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.background: list[subprocess.Popen[bytes]] = []
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(place)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        monkeypatch.delenv("HEADRACE_TOKEN", raising=False)

    def follow(self, text: str) -> None:
        for language, block in BLOCK.findall(text):
            if language == "python":
                exec(compile(block, "document", "exec"), self.names)
            else:
                for line in block.splitlines():
                    self._type(line.removeprefix("$ "))

    def _type(self, line: str) -> None:
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self._monkeypatch.setenv(name, value)
        elif line.endswith(" &"):
            self.background.append(subprocess.Popen(shlex.split(line.removesuffix(" &"))))
            if "agent.sock" in line:
                self._wait_for_socket()
        else:
            argv = shlex.split(line)
            done = subprocess.run(argv, capture_output=True, timeout=COMMAND_S, check=False)
            assert done.returncode == 0, f"{line}: {done.stderr.decode()}"

    def _wait_for_socket(self) -> None:
        deadline = time.monotonic() + 20
        while not Path("agent.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def leave(self) -> None:
        for process in self.background:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
