"""``python -m testbed``."""

from __future__ import annotations

import sys

from headrace.cli.running import run_command
from testbed.commandline import cli


def run(arguments: list[str]) -> int:
    """Run one command; return 0 done, 1 bad answer, 2 bad call, 3 system refused, 130 stopped."""
    return run_command(cli, arguments, program="python -m testbed")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
