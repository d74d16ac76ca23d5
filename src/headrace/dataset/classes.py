"""What classes are called whose numbers stand in files: only if all files agree."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.dataset.index import FileProblem
from headrace.dataset.scan import ClassNames


def agreed_names(found: Sequence[ClassNames]) -> tuple[tuple[str, ...], list[FileProblem]]:
    """Return the names of the classes, and the files that do not agree on them; then no names."""
    named = [each for each in found if each.names]
    lists = {each.names for each in named}
    if len(lists) < 2:
        return next(iter(lists), ()), []
    return (), [_disagreeing(each, named[0]) for each in named]


def _disagreeing(each: ClassNames, first: ClassNames) -> FileProblem:
    file = each.file
    reason = (
        f"its {len(each.names)} classes are not those of all other files, such as the "
        f"{len(first.names)} of {first.file.path}: their labels are numbers without names; index "
        "datasets one by one"
    )
    return FileProblem(file=file.path, size=file.size, version=file.version, reason=reason)
