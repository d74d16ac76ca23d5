"""Documents, JSON above all, as every command and benchmark writes them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.errors import StorageError


def write_json(target: str | Path, value: Any) -> None:
    """Write a value as indented JSON to a file; ``-`` is standard output.

    Raises:
        StorageError: the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    if str(target) == "-":
        sys.stdout.write(text.decode())
    else:
        write_document(target, text)


def write_document(target: str | Path, data: bytes) -> None:
    """Write a file.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        Path(target).write_bytes(data)
    except OSError as error:
        raise StorageError(
            f"cannot write {target}: {error.strerror}; name another place"
        ) from error
