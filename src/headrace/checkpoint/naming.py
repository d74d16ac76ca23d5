"""What names of files and folders tell in any layout."""

from __future__ import annotations

import re

_STEP = re.compile(r"(?:^|[-_])(?:step|iter|checkpoint)[-_]?(\d{1,18})$")


def step_of(path: str) -> int | None:
    """Return the step that a folder's name ends with, such as ``step-100``; None: it has none."""
    found = _STEP.search(path.rpartition("/")[2])
    return None if found is None else int(found.group(1))


def is_hidden(path: str) -> bool:
    """Return whether a file, or a folder that it is in, has a name that starts with a dot.

    Such files are headrace's own, or are being written under another name.
    """
    return any(part.startswith(".") for part in path.split("/"))


def is_plain(path: str, suffix: str) -> bool:
    """Return whether a file with such a name lies directly in its folder and is not hidden."""
    return path.endswith(suffix) and "/" not in path and not path.startswith(".")
