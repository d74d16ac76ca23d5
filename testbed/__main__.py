"""``python -m testbed``: errors become one line on standard error and an exit code."""

from __future__ import annotations

import sys
import traceback

import click

from headrace.core.errors import HeadraceError
from testbed.commandline import cli

INTERRUPTED = 130


def run(arguments: list[str]) -> int:
    """Run one command; return 0 done, 1 bad answer, 2 bad call, 3 system refused, 130 stopped."""
    try:
        result = cli.main(args=arguments, prog_name="python -m testbed", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("testbed: interrupted", err=True)
        return INTERRUPTED
    except (HeadraceError, OSError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        click.echo(f"testbed: {error}", err=True)
        return error.exit_code if isinstance(error, HeadraceError) else 1
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
