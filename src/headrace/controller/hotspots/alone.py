"""Hotspots of a command without a controller: it has a journal of its own while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from headrace.controller.hotspots.desk import HotspotDesk
from headrace.controller.hotspots.reading import read_hot_files
from headrace.controller.hotspots.stores import open_carrier
from headrace.controller.journal import Journal

_SUFFIX = ".db"


def leases_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where commands keep their journals: ``$XDG_STATE_HOME/headrace/leases``."""
    home = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "headrace" / "leases"


def own_journal(folder: Path) -> Path:
    """Return the file of this process's journal."""
    return folder / f"{os.getpid()}{_SUFFIX}"


def journals(folder: Path) -> list[Path]:
    """Return the journals of commands that run, or were killed."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


@contextmanager
def opened_desk(path: Path) -> Iterator[HotspotDesk]:
    """Open a journal and go on with what it has; it is removed when nothing is left in it.

    Raises:
        JournalInUseError: the command that it belongs to runs.
        ConfigError: it cannot be made or opened.
    """
    desk = None
    try:
        with closing(Journal(path)) as journal:
            desk = HotspotDesk(journal, read=read_hot_files, opened=open_carrier)
            with closing(desk):
                yield desk
    finally:
        if desk is not None and desk.is_idle():
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink(missing_ok=True)
