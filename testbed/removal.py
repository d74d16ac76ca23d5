"""Takes a bed apart: what it consists of is looked up by name, removed, and looked up again.

Nothing needs to be remembered for it, so it works after a crash at any point, and twice.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from headrace.core.errors import RemoteError
from testbed import disks
from testbed.cgroups import Group, Trees, find_trees
from testbed.commands import call
from testbed.errors import TestbedError
from testbed.names import BedNames
from testbed.network import NAMESPACES
from testbed.patience import until
from testbed.state import Registry

GONE_S = 10.0
"""Within this time the kernel has let go of namespaces and links [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftovers:
    """What there is of a bed."""

    processes: tuple[int, ...]
    mounts: tuple[str, ...]
    loops: tuple[str, ...]
    namespaces: tuple[str, ...]
    links: tuple[str, ...]
    groups: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return "; ".join(
            f"{kind} {', '.join(map(str, all_))}" for kind, all_ in parts.items() if all_
        )


def look(names: BedNames, directory: Path, trees: Trees) -> Leftovers:
    """Return what there is of a bed now."""
    group = Group(trees, names.group)
    return Leftovers(
        processes=tuple(sorted(group.members())),
        mounts=tuple(map(str, disks.mounts_below(directory))),
        loops=tuple(disks.loops_below(directory)),
        namespaces=tuple(_namespaces(names)),
        links=tuple(_links(names)),
        groups=tuple(str(path) for path in group.directories if path.exists()),
    )


def remove(registry: Registry, number: int, *, only_if_abandoned: bool = False) -> bool:
    """Take a bed apart; return whether there was one.

    Raises:
        TestbedError: Something is still there; the message lists it.
        DeadlineError: A process or a disk does not let go.
    """
    with registry.locked(number) as is_there:
        if not is_there or (only_if_abandoned and not registry.is_abandoned(number)):
            return False
        _remove(BedNames(number=number), registry.directory(number), find_trees())
        registry.discard(number)
    return True


def remove_abandoned(registry: Registry) -> list[int]:
    """Take apart all beds whose owners have ended; return their numbers.

    Raises:
        RemoteError: One resists; all others were removed.
    """
    registry.drop_halves()
    removed: list[int] = []
    resisting: RemoteError | None = None
    for number in filter(registry.is_abandoned, registry.numbers()):
        try:
            removed += [number] if remove(registry, number, only_if_abandoned=True) else []
        except RemoteError as error:
            resisting = error
    if resisting is not None:
        raise resisting
    return removed


def _remove(names: BedNames, directory: Path, trees: Trees) -> None:
    """Remove in the order in which things use each other, all but the files.

    Whatever makes a part of a bed or runs on it is in the bed's control group. Once that is
    removed, nothing can be added any more.
    """
    group = Group(trees, names.group)
    keeps = f"the control group {names.group} cannot be removed: its processes come again"
    until(partial(_closed, group), longest_s=GONE_S, what=keeps)
    disks.remove_below(directory, trees)
    _remove_network(names)
    if left := look(names, directory, trees):
        raise TestbedError(f"bed {names.number} is not gone: {left}; try `python -m testbed clean`")


def _closed(group: Group) -> bool:
    """End the group's processes and remove it; False if another one entered in between."""
    group.end()
    try:
        group.remove()
    except TestbedError:
        return False
    return True


def _remove_network(names: BedNames) -> None:
    """Delete links, then namespaces; a link also goes by itself some time after its other end."""
    for kind, find in (("link", _links), ("netns", _namespaces)):
        remain = f"bed {names.number}: the kernel keeps {kind}s; `ip {kind}` shows them"
        until(partial(_deleted, kind, find, names), longest_s=GONE_S, what=remain)


def _deleted(kind: str, find: Callable[[BedNames], list[str]], names: BedNames) -> bool:
    """Ask for deletion; return whether there was nothing to delete."""
    found = find(names)
    if found:
        with contextlib.suppress(TestbedError):  # gone by itself meanwhile; the next look tells
            lines = "".join(f"{kind} delete {name}\n" for name in found)
            call("ip", "-force", "-batch", "-", stdin=lines)
    return not found


def _namespaces(names: BedNames) -> list[str]:
    return [path.name for path in Path(NAMESPACES).glob(f"{names.namespace_prefix}*")]


def _links(names: BedNames) -> list[str]:
    links = json.loads(call("ip", "-j", "link", "show") or "[]")
    return [link["ifname"] for link in links if link["ifname"].startswith(names.link_prefix)]
