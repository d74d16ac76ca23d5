"""Groups of verbs: every verb is there, and none is imported before it is called."""

from __future__ import annotations

import importlib
import subprocess
import sys

import click
import pytest

from headrace.cli import main, trace
from headrace.cli.main import run


@pytest.mark.parametrize("verbs", [main.VERBS, trace.VERBS], ids=["headrace", "trace"])
def test_every_verb_has_its_module(verbs: dict[str, tuple[str, str]]) -> None:
    for module, _ in verbs.values():
        assert isinstance(importlib.import_module(module).command, click.Command)


def test_a_wrong_verb_of_a_group_is_refused_with_the_nearest_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["trace", "shwo"]) == 2
    assert "did you mean 'show'?" in capsys.readouterr().err


def test_help_of_a_group_imports_no_verb() -> None:
    program = (
        "import sys\n"
        "from headrace.cli.main import run\n"
        "run(['trace', '--help'])\n"
        "print([name for name in sys.modules if name in ('headrace.trace', 'pyarrow')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
