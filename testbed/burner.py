"""Burns a share of one core until it is killed.

Run as a script: ``burner.py PERCENT``. Standard library only. It spends what it is due and not
more: where a quota or other processes held it up, it catches up by at most a tenth of a second.
"""

from __future__ import annotations

import sys
import time

PERIOD_S = 0.01
_CATCH_UP_S = 0.1


def burn(share: float) -> None:
    """Use this share of a core for ever."""
    due_s, before = 0.0, time.monotonic()
    while True:
        now = time.monotonic()
        due_s = min(due_s + (now - before) * share, _CATCH_UP_S)
        before = now
        start = time.process_time()
        while time.process_time() - start < due_s:
            pass
        due_s -= time.process_time() - start
        if share < 1:
            time.sleep(PERIOD_S)


if __name__ == "__main__":
    burn(min(1.0, float(sys.argv[1]) / 100))
