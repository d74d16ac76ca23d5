"""Every block of the tutorial and of the README runs as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.demo.dataset import build_dataset
from headrace.demo.recipes import DatasetSize, plan_dataset
from headrace.demo.sources import carried_sources

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SMALL = DatasetSize(photos=60, captioned=4, clips=3, truncated=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a small ``headrace-demo/dataset``."""
    directory = tmp_path_factory.mktemp("docs")
    sources = carried_sources()
    build_dataset(
        directory / "headrace-demo",
        sources=sources,
        recipes=plan_dataset(sources, SMALL, seed=7),
        progress=lambda *_: None,
        workers=2,
    )
    return directory


class Reader:
    """Does what a reader does: types commands into a shell and blocks into one interpreter."""

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
                exec(compile(block, "tutorial", "exec"), self.names)
            else:
                for line in block.splitlines():
                    self._type(line.removeprefix("$ "))

    def _type(self, line: str) -> None:
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self._monkeypatch.setenv(name, value)
        elif line.endswith(" &"):
            self.background.append(subprocess.Popen(shlex.split(line.removesuffix(" &"))))
            self._wait_for_socket()
        else:
            done = subprocess.run(shlex.split(line), capture_output=True, timeout=60, check=False)
            assert done.returncode == 0, f"{line}: {done.stderr.decode()}"

    def _wait_for_socket(self) -> None:
        deadline = time.monotonic() + 20
        while not Path("agent.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def leave(self) -> None:
        for process in self.background:
            process.terminate()
            process.wait(10)


@pytest.fixture
def reader(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    reader = Reader(place, monkeypatch)
    yield reader
    reader.leave()


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
