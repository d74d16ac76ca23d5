"""Groups of verbs whose modules are imported when they are called."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click

from headrace.cli.running import UnreadGroup


class VerbGroup(UnreadGroup):
    """Loads a verb's module when it is called, so that ``--help`` stays fast.

    Args:
        verbs: By name, the module that has the verb as ``command``, and what it does.
    """

    def __init__(self, *args: Any, verbs: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return all verbs."""
        return sorted(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the verb's module and return its ``command``."""
        if cmd_name not in self._verbs:
            return None
        module = importlib.import_module(self._verbs[cmd_name][0])
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; a wrong one is refused with the nearest right one."""
        near = difflib.get_close_matches(args[0], self._verbs, n=1)
        if args[0] not in self._verbs and near:
            ctx.fail(f"no command {args[0]!r}; did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._verbs[name][1]) for name in self.list_commands(ctx)])
