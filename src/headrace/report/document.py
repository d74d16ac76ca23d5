"""JSON documents, as every command and benchmark writes them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.errors import CallerError


def write_json(target: str | Path, value: Any) -> None:
    """Write a value as indented JSON to a file; ``-`` is standard output.

    Raises:
        CallerError: the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    if str(target) == "-":
        sys.stdout.write(text.decode())
        return
    try:
        Path(target).write_bytes(text)
    except OSError as error:
        raise CallerError(f"cannot write {target}: {error.strerror}; name another file") from error
