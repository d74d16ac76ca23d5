"""Runs a command line: errors become one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headrace.core.errors import HeadraceError
from headrace.report.printable import printable

INTERRUPTED = 130


class UnreadGroup(click.Group):
    """Ends well when nobody reads the output any more, as with ``| head``; click ends with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            with Path(os.devnull).open("wb") as nowhere:  # for what is flushed at the end
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None


def run_command(command: click.Command, arguments: Sequence[str], *, program: str) -> int:
    """Run one command and return its exit code.

    0 done, 1 it ran and the answer is bad, 2 the call is wrong, 3 something remote failed, 130
    interrupted.

    Args:
        command: It has the option ``--debug``, with which the traceback of an error is shown.
        arguments: Without the program's name.
        program: How users call it; messages begin with its last word.
    """
    name = program.rpartition(" ")[2]
    try:
        result: Any = command.main(args=arguments, prog_name=program, standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{name}: interrupted", err=True)
        return INTERRUPTED
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # as rich ends
            return 0
        raise
    except (HeadraceError, OSError) as error:  # such as a full disk below standard output
        if "--debug" in arguments:
            traceback.print_exc()
        said = "\n".join(map(printable, str(error).split("\n")))
        click.echo(f"{name}: {said}", err=True)
        return error.exit_code if isinstance(error, HeadraceError) else 1
    return result if isinstance(result, int) else 0
