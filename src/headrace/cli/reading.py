"""A bar on standard error while a trace is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(doing: str, nbytes: int) -> Iterator[Callable[[int], None]]:
    """Give what is called with bytes that were read; nothing is shown but on a terminal.

    Args:
        doing: What takes the time: ``analysing``.
        nbytes: That will be read [bytes].
    """
    console = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("", total=nbytes)
        yield lambda advanced: bar.advance(task, advanced)
