"""Python runs this as it starts, because ``headrace trace run`` put its folder on PYTHONPATH.

It starts the probe, takes its folder off ``sys.path`` and runs the ``sitecustomize`` that would
have run without it. The probe is loaded from its files, so that the interpreter needs no headrace
of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

_NAME = "headrace_probe"
_LOWEST = (3, 11)


def _start_probe(here: Path) -> None:
    if sys.version_info < _LOWEST:
        wanted = ".".join(map(str, _LOWEST))
        raise RuntimeError(f"{sys.executable} is older than Python {wanted}")
    folder = here.parent / "probe"
    spec = importlib.util.spec_from_file_location(
        _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    probe = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = probe
    spec.loader.exec_module(probe)
    probe.start()


def _run_hidden(here: Path) -> None:
    """Run the ``sitecustomize`` that this one hides, if there is one."""
    sys.path[:] = [entry for entry in sys.path if entry != str(here)]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine


_HERE = Path(__file__).parent
try:
    _start_probe(_HERE)
except Exception as error:  # noqa: BLE001 - the program has to run as it would without this
    sys.stderr.write(f"headrace trace run: this process is not recorded: {error}\n")
_run_hidden(_HERE)
