"""What verbs that read a trace have in common: what they say on standard error, and pandas."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path

import click
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.outputs import require_writable_file
from headrace.core.errors import CallerError
from headrace.trace.opening import Trace


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


def keep_pandas_out() -> None:
    """Have pyarrow look for pandas, once for this process, where it finds none.

    It looks when it makes its first array, and would import pandas where that is installed: for
    half a second and 50 MB, though nothing here uses it. For processes that are headrace's own.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas())
    try:
        pa.array([0])
    finally:
        sys.meta_path.pop(0)


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        """Refuse pandas, and leave everything else to other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pyarrow does without pandas here", name=fullname)


def require_elsewhere(path: Path, given: Sequence[str], trace: Trace) -> None:
    """Refuse to write over what is read, or into it, where it would be read as well later.

    A device or a pipe is refused as well: a file that appears whole would take its place.
    """
    require_writable_file(str(path))
    if path.exists() and not path.is_file():
        raise CallerError(f"cannot write {path}: it is a device or a pipe; name a file")
    place = path.resolve()
    folders = [Path(one).resolve() for one in given if Path(one).is_dir()]
    if any(place.is_relative_to(folder) for folder in folders) or any(
        source.path.resolve() == place for source in trace.sources
    ):
        raise CallerError(f"{path} would become part of the trace; write it somewhere else")


def tell_problems(trace: Trace) -> None:
    """Say on standard error what of a trace that was read is damaged, lost or unknown."""
    notes = trace.notes
    for problem in notes.problems:
        click.echo(f"headrace: {problem}", err=True)
    if notes.further_problems:
        click.echo(f"headrace: and {notes.further_problems:,} problems more", err=True)
    if notes.lost_events:
        click.echo(f"headrace: {notes.lost_events:,} events were lost when recorded", err=True)
    if notes.is_relative:
        click.echo("headrace: times count from an arbitrary moment, not from 1970", err=True)
