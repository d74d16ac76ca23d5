"""What is wrong with files of a dataset, one line for each reason."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.dataset.index import FileProblem
from headrace.report.printable import printable


def problem_lines(problems: Iterable[FileProblem]) -> list[str]:
    """Return a line for each reason, in the order in which they come; it names the first file."""
    files: dict[str, list[str]] = {}
    for problem in problems:
        files.setdefault(problem.reason, []).append(problem.file)
    return [printable(f"{_named(paths)}: {reason}") for reason, paths in files.items()]


def _named(paths: list[str]) -> str:
    others = len(paths) - 1
    return f"{paths[0]} and {others:,} more" if others else paths[0]
