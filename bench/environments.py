"""Environments of others' programs: each is made below the user's cache directory, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.core.errors import RemoteError
from headrace.devhdfs import artefacts

INSTALL_TIMEOUT_S = 900.0


def environment(name: str, packages: Sequence[str]) -> Path:
    """Return where the programs of an environment lie; install it the first time.

    Args:
        name: Folder below the cache directory, such as ``bench-analyse/hta``.
        packages: What to install, one requirement each, or the lines of a file of them; those
            with hashes are checked against them.

    Raises:
        RemoteError: it cannot be installed.
    """
    folder = artefacts.cache_directory() / name
    done = folder / "installed"
    wanted = "\n".join(packages)
    if not done.is_file() or done.read_text() != wanted:
        _install(folder, wanted)
        done.write_text(wanted)
    return folder / "bin"


def _install(folder: Path, wanted: str) -> None:
    uv = Path(sys.executable).with_name("uv")
    for command, said in (
        ([uv, "venv", "--clear", "--python", sys.executable, folder], ""),
        ([uv, "pip", "install", "--python", folder / "bin" / "python", "-r", "-"], wanted),
    ):
        made = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            input=said,
            timeout=INSTALL_TIMEOUT_S,
        )
        if made.returncode:
            raise RemoteError(f"cannot install {folder.name}: {made.stderr[-800:]}")
