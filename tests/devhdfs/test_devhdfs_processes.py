from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.devhdfs.processes import end, mark, marked

SLEEP = "print(flush=True); import time; time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


class Zoo:
    """Python processes that carry marks, reaped at the end of the test."""

    def __init__(self) -> None:
        self._running = ExitStack()

    def start(self, script: str, argument: str) -> subprocess.Popen[bytes]:
        """Start a process and wait until it has said that it is ready."""
        process = subprocess.Popen([sys.executable, "-c", script, argument], stdout=subprocess.PIPE)
        self._running.enter_context(process)
        self._running.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def close(self) -> None:
        self._running.close()


@pytest.fixture
def zoo() -> Iterator[Zoo]:
    zoo = Zoo()
    yield zoo
    zoo.close()


def test_a_cluster_is_found_by_its_directory_and_no_other_is(tmp_path: Path, zoo: Zoo) -> None:
    ours = zoo.start(SLEEP, mark(tmp_path / "one", "datanode-1"))
    zoo.start(SLEEP, mark(tmp_path / "one-more", "datanode-1"))
    zoo.start(SLEEP, mark(tmp_path / "one" / "below", "datanode-1"))
    zoo.start(SLEEP, str(tmp_path / "one"))
    assert [(one.pid, one.name) for one in marked(tmp_path / "one")] == [(ours.pid, "datanode-1")]


def test_a_frozen_process_is_told_apart(tmp_path: Path, zoo: Zoo) -> None:
    frozen = zoo.start(SLEEP, mark(tmp_path, "datanode-1"))
    frozen.send_signal(signal.SIGSTOP)
    os.waitpid(frozen.pid, os.WUNTRACED)
    assert [one.is_frozen for one in marked(tmp_path)] == [True]


def test_processes_end_frozen_or_deaf(tmp_path: Path, zoo: Zoo) -> None:
    willing = zoo.start(SLEEP, mark(tmp_path, "namenode-1"))
    deaf = zoo.start(DEAF, mark(tmp_path, "datanode-1"))
    frozen = zoo.start(SLEEP, mark(tmp_path, "datanode-2"))
    frozen.send_signal(signal.SIGSTOP)
    assert end(tmp_path, patience_s=1.0) == 3
    codes = {one.wait(10) for one in (willing, frozen)}
    assert (codes, deaf.wait(10)) == ({-signal.SIGTERM}, -signal.SIGKILL)


def test_nothing_to_end_is_fine(tmp_path: Path) -> None:
    assert end(tmp_path, patience_s=1.0) == 0
