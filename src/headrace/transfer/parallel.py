"""Runs a function over items in a few threads, and ends all of them before it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(function: Callable[[T], R], items: Sequence[T], *, width: int) -> list[R]:
    """Return the function's results in the order of the items.

    Args:
        function: Called by several threads.
        items: What it is called with.
        width: Most calls at a time.

    Raises:
        The first failure; calls that had not begun are left out, others have ended.
    """
    if len(items) < 2 or width == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(width, len(items)), thread_name_prefix="transfer") as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for finished in wait(futures, return_when=FIRST_EXCEPTION).done:
                finished.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in futures]
