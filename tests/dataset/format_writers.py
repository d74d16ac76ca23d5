"""The writers that formats come with, without all that their packages import besides.

Whole, MosaicML Streaming and Megatron import text models and kernels for seconds. Here their
packages are entered without being run, so that a writer's own modules are all that is imported.
"""

from __future__ import annotations

import functools
import importlib
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_SITE = Path(sysconfig.get_paths()["purelib"])

_STREAMING = ("streaming", "streaming.base", "streaming.base.format", "streaming.base.format.mds")


@functools.cache
def _enter(name: str) -> None:
    package = types.ModuleType(name)
    package.__path__ = [str(_SITE.joinpath(*name.split(".")))]
    sys.modules.setdefault(name, package)


def mds_writer() -> Any:
    for name in _STREAMING:
        _enter(name)
    return importlib.import_module("streaming.base.format.mds.writer").MDSWriter


def write_mds(
    out: Path, columns: Mapping[str, str], samples: Iterable[Mapping[str, object]], **options: Any
) -> Path:
    with mds_writer()(columns=dict(columns), out=str(out), **options) as writer:
        for sample in samples:
            writer.write(dict(sample))
    return out
