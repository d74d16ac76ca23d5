"""Changes which of two NameNodes is active, with Hadoop's own administration command."""

from __future__ import annotations

import os
import subprocess

from headrace.core.errors import DeadlineError, RemoteError
from headrace.devhdfs.config import NameNodeAddress
from headrace.devhdfs.layout import CLIENT, Layout, Runtime

_ADMIN_CLASS = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_TIMEOUT_S = 60.0


def make_active(runtime: Runtime, layout: Layout, namenode: NameNodeAddress) -> None:
    """Make a NameNode active, whatever became of the other."""
    _administer(runtime, layout, ["-transitionToActive", "--forceactive", namenode.name])


def make_standby(runtime: Runtime, layout: Layout, namenode: NameNodeAddress) -> None:
    """Make the active NameNode a standby."""
    _administer(runtime, layout, ["-transitionToStandby", namenode.name])


def _administer(runtime: Runtime, layout: Layout, arguments: list[str]) -> None:
    argv = runtime.argv(layout.directory, CLIENT, [_ADMIN_CLASS, *arguments])
    try:
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ),
        )
    except subprocess.TimeoutExpired as error:
        raise DeadlineError(
            f"haadmin {' '.join(arguments)} did not end within {_TIMEOUT_S:g} s; "
            f"see {layout.directory}/*/log"
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RemoteError(
            f"haadmin {' '.join(arguments)} failed: {said[-1] if said else 'without a word'}; "
            f"see {layout.directory}/*/log"
        )
