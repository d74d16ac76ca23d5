"""Files that have no name until they are whole, so that a killed writer leaves nothing behind.

Linux makes such files (``O_TMPFILE``) on ext4, xfs, btrfs and tmpfs, and on overlays since 6.3;
where it does not (NFS, FUSE), a file gets a hidden name at once, and stays if its writer is killed.
"""
# Plain os calls, as in ``local``.
# ruff: noqa: PTH105, PTH108, PTH120

from __future__ import annotations

import errno
import os

from headrace.storage.paths import hidden_part

_UNKNOWN = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
"""What systems answer that do not know files without a name."""

_FLAGS = os.O_WRONLY | os.O_CLOEXEC


class UnnamedFile:
    """A new file in a folder, to be named once it is complete.

    Args:
        real: Absolute path it will have; its folder exists.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, real: str) -> None:
        self._real = real
        self._aside = hidden_part(real)
        self._has_name = False
        try:
            self.handle = os.open(os.path.dirname(real), _FLAGS | os.O_TMPFILE, 0o666)
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
            self.handle = os.open(self._aside, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
            self._has_name = True

    def publish(self) -> None:
        """Give it its name, in place of what has it.

        Raises:
            OSError: it cannot be named; ``discard`` is still to be called.
        """
        if not self._has_name:
            try:
                self._link(self._real)
            except FileExistsError:  # only a rename replaces what is there
                self._link(self._aside)
                self._has_name = True
        if self._has_name:
            os.replace(self._aside, self._real)
            self._has_name = False

    def discard(self) -> None:
        """Close it; it is gone unless it was published."""
        os.close(self.handle)
        if self._has_name:
            self._has_name = False
            try:
                os.unlink(self._aside)
            except FileNotFoundError:
                return

    def _link(self, path: str) -> None:
        # Only with a folder's handle does Python follow the link in /proc; what it is does not
        # matter, for the paths are absolute.
        os.link(f"/proc/self/fd/{self.handle}", path, src_dir_fd=self.handle)
