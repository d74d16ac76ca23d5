"""Ends a cluster whose owner has died: ``python -m headrace.devhdfs.watch OWNER DIRECTORY``.

A process of its own, since an owner killed with SIGKILL can do nothing. It waits on the
owner's process descriptor, ends all daemons that carry the cluster's mark, and removes
what the cluster had made.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.devhdfs import processes


def start_watch(directory: Path, *, removes: Sequence[Path]) -> subprocess.Popen[bytes]:
    """Start the watcher of this process's cluster; killing it calls the watch off."""
    arguments = [str(os.getpid()), str(directory), *map(str, removes)]
    return subprocess.Popen(
        [sys.executable, "-m", "headrace.devhdfs.watch", *arguments],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def watch(owner: int, directory: Path, removes: Sequence[Path]) -> None:
    """Wait for the owner's end, however long it lives, then end its cluster."""
    _wait_for_end(owner)
    processes.end(directory, patience_s=0.0)
    for folder in removes:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_end(owner: int) -> None:
    try:
        descriptor = os.pidfd_open(owner)
    except ProcessLookupError:
        return
    if os.getppid() == owner:  # else it has ended before, and this is another process
        select.select([descriptor], [], [])


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]), [Path(one) for one in sys.argv[3:]])
