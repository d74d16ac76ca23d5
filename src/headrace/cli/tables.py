"""Histograms and JSON as the verbs print them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.errors import CallerError

_BARS = " ▁▂▃▄▅▆▇█"


def bars(counts: Sequence[int]) -> str:
    """Return a histogram of block characters; whatever is not zero can be seen."""
    top = max(counts, default=0)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // top) if count else 0] for count in counts)


def write_json(target: str, value: Any) -> None:
    """Write a value as indented JSON to a file; ``-`` is standard output.

    Raises:
        CallerError: the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise CallerError(f"cannot write {target}: {error.strerror}; name another file") from error
