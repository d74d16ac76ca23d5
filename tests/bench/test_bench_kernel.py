"""What a crew of ranks takes of the kernel is gone with it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.checkpoints.kernel import take_own_memory


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_memory_of_a_crew_is_seen_by_what_it_forks_and_ends_with_it() -> None:
    told, telling = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            take_own_memory()
            mine = Path("/dev/shm/of-the-crew")
            mine.write_bytes(bytes(4096))
            if os.fork():
                signal.pause()
            os.write(telling, b"seen" if mine.exists() else b"not seen")
        finally:
            os._exit(0)
    try:
        assert os.read(told, 100) == b"seen"
        mounts = Path(f"/proc/{pid}/mounts").read_text()
        assert mounts.count("headrace-crew /dev/shm ") == 1
        assert "headrace-crew" not in Path("/proc/self/mounts").read_text()
        assert not Path("/dev/shm/of-the-crew").exists()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
