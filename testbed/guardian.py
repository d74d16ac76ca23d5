"""Removes a bed as soon as its owner has ended without doing so.

The owner starts one guardian per bed. It sleeps until the owner's process ends: nothing the owner
forgets, and no signal, can keep it from noticing.

Run as ``python -m testbed.guardian ROOT NUMBER PID``.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from pathlib import Path

from headrace.core.errors import HeadraceError
from testbed import removal
from testbed.state import Owner, Registry

_ENDING_S = 5.0


class Guardian:
    """The owner's side of it: starts the process, and dismisses it.

    Args:
        registry: Where beds are kept.
        number: The bed.
        owner: Whose end it waits for.
    """

    def __init__(self, registry: Registry, number: int, owner: Owner) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "testbed.guardian",
                str(registry.root),
                str(number),
                str(owner.pid),
            ],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End it; there is nothing left to guard."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)


def main(arguments: list[str]) -> int:
    """Wait for the owner's end, then remove the bed."""
    root, number, pid = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    _wait_for_end(pid)
    try:
        removal.remove(Registry(root), number, only_if_abandoned=True)
    except HeadraceError:
        return 1  # nobody listens; the next start of a bed tries again and says what is wrong
    return 0


def _wait_for_end(pid: int) -> None:
    """Return when a process has ended; at once if it has already."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
