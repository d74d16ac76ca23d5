"""Joins files of a directory of this host so that a crash at any point loses nothing.

The parts are copied into one file aside, inside the kernel (and not at all where the file
system shares extents). Once that is complete it gets the name of the *joined* file, the other
parts are removed, and it replaces the first of them. So after a crash either all parts are as
they were, or the joined file tells that what is left of them is in it already.
"""
# Plain os calls, as in ``local``.
# ruff: noqa: PTH105, PTH108, PTH116, PTH118, PTH119, PTH120

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress

from headrace.storage.paths import folder_of_parts
from headrace.storage.unnamed import UnnamedFile

_NOT_SHARED = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""Where ``copy_file_range`` does not work, ``sendfile`` does."""


def join(parts: Sequence[str]) -> str:
    """Make one file of parts, in their order, and return its path: that of the first.

    Args:
        parts: Absolute paths in one folder.

    Raises:
        CallerError: no parts, or in several folders.
        OSError: one is not there, or there is no room; to be called again with those that are.
    """
    folder = folder_of_parts(parts)
    first, others = parts[0], parts[1:]
    joined = os.path.join(folder, f".{os.path.basename(first)}.joined")
    if not _holds(joined, parts):
        if not others:
            _remove_if_there(joined)
            return first
        _copy(parts, joined)
    for part in reversed(others):
        os.unlink(part)
    os.replace(joined, first)
    return first


def sync_folder(folder: str) -> None:
    """Make the names in a folder outlive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _holds(joined: str, parts: Sequence[str]) -> bool:
    """Tell whether an earlier call has got as far as joining these very parts."""
    try:
        made_of = os.stat(joined).st_mtime_ns
    except FileNotFoundError:
        return False
    return _newest(parts) <= made_of


def _newest(parts: Sequence[str]) -> int:
    return max(os.stat(part).st_mtime_ns for part in parts)


def _copy(parts: Sequence[str], joined: str) -> None:
    file = UnnamedFile(joined)
    try:
        for part in parts:
            _append(part, file.handle)
        os.utime(file.handle, ns=(_newest(parts),) * 2)
        os.fsync(file.handle)
        file.publish()
        sync_folder(os.path.dirname(joined))
    finally:
        file.discard()


def _append(part: str, target: int) -> None:
    source = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    try:
        left = os.fstat(source).st_size
        while left:
            moved = _move(source, target, left)
            if not moved:
                raise OSError(errno.EIO, f"{part} was truncated meanwhile")
            left -= moved
    finally:
        os.close(source)


def _move(source: int, target: int, most: int) -> int:
    """Copy some bytes on, from where both files are."""
    try:
        return os.copy_file_range(source, target, most)
    except OSError as error:
        if error.errno not in _NOT_SHARED:
            raise
    return os.sendfile(target, source, None, most)


def _remove_if_there(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
