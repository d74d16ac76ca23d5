"""Calls back when the program has imported a module, before anyone uses it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeAlias

from .tracer import Watcher

Watch: TypeAlias = Callable[[Any], None]
"""Changes a module so that its use is recorded."""


def after_import(watches: Mapping[str, Watch]) -> None:
    """Call each watch with its module as soon as that was imported."""
    sys.meta_path.insert(0, _Finder(watches))


class _Finder(MetaPathFinder):
    """Finds what the others find, and has watched modules call back when they are loaded."""

    def __init__(self, watches: Mapping[str, Watch]) -> None:
        self._watches = watches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._watches:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None
            if finder is not self and find is not None:
                spec = find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self._call_back(spec.loader, fullname)
                return spec
        return None

    def _call_back(self, loader: Any, name: str) -> None:
        execute = loader.exec_module

        def execute_and_watch(module: ModuleType) -> None:
            execute(module)
            Watcher(f"uses of {name}").try_to(self._watches[name], module)

        loader.exec_module = execute_and_watch
