"""Runs the system's tools (``ip``, ``tc``, ``mount`` …), each bounded in time."""

from __future__ import annotations

import shlex
import subprocess

from headrace.core.errors import ConfigError, DeadlineError
from testbed.cgroups import Group
from testbed.errors import TestbedError

LONGEST_S = 30.0
"""No tool is waited for longer; on an idle machine each takes a few milliseconds [s]."""


def call(*argv: str, stdin: str = "", inside: Group | None = None) -> str:
    """Return what the tool printed.

    Args:
        argv: The tool and its arguments.
        stdin: What it reads.
        inside: The control group it runs in. What makes a part of a bed runs in one of the bed's,
            so that it ends with the bed also when its caller was killed meanwhile.

    Raises:
        ConfigError: There is no such tool.
        DeadlineError: It did not end in time.
        TestbedError: It failed.
    """
    try:
        done = subprocess.run(
            inside.command(argv) if inside else argv,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no {argv[0]!r} on this machine; install iproute2, util-linux and e2fsprogs"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DeadlineError(
            f"`{shlex.join(argv)}` did not end within {LONGEST_S:g} s; see what the machine is "
            "busy with, then `python -m testbed clean`"
        ) from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").replace("\n", "; ")
        doing = f" given {stdin.strip()!r}" if stdin else ""
        raise TestbedError(
            f"`{shlex.join(argv)}`{doing} ended with {done.returncode} and said: {said} "
            "(`dmesg` may say more)"
        )
    return done.stdout
