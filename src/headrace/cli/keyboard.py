"""Single keys of a terminal, without Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType


class Keyboard:
    """Keys while a ``with`` block runs; where standard input is no terminal, none ever comes."""

    def __init__(self) -> None:
        self._number = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before: list[object] | None = None

    def __enter__(self) -> Keyboard:
        if self._number is not None:
            self._before = termios.tcgetattr(self._number)
            tty.setcbreak(self._number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._number is not None and self._before is not None:
            termios.tcsetattr(self._number, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def wait_for(self, key: str, timeout_s: float) -> bool:
        """Return whether ``key`` was pressed within ``timeout_s``; other keys are ignored."""
        if self._number is None:
            time.sleep(timeout_s)
            return False
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._number], [], [], left_s)[0]:
                pressed = os.read(self._number, 64)
                if not pressed:  # the terminal is gone
                    self._number = None
                    return True
                if key.encode() in pressed:
                    return True
        return False
