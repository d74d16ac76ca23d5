"""An op of the user's own, named by its import path."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import numpy as np

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError, CorruptSampleError, HeadraceError
from headrace.core.record import Value
from headrace.transform import cost
from headrace.transform.corrupt import reason_of
from headrace.transform.op import ValueOp
from headrace.transform.spec import Spec

_PLAIN_KINDS = frozenset("biufcSU")
"""NumPy's codes of the element types that an array may have: no objects, no structures."""

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class UserOp(ValueOp, frozen=True, tag="user"):
    """Call ``function(value, draws, **params)`` on each of ``fields`` and keep what it returns.

    The function must be pure: the same value and draws give the same bytes, on every host; all
    randomness comes from ``draws``. It raises ValueError to say that a sample is corrupt; any
    other exception is a fault of the op and ends the job. Pictures come as
    ``uint8 [H, W, 3]``. Hosts that get a pipeline from elsewhere import only allow-listed paths.
    """

    path: str
    """``package.module:function``."""

    fields: tuple[str, ...]
    params: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies an empty default
    """Plain JSON values handed to the function by name."""

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ConfigError(f"user.path={self.path!r} must look like 'package.module:function'")

    def is_allowed(self, patterns: tuple[str, ...]) -> bool:
        """Whether one of the patterns (``package.module:*``) matches the path."""
        return any(fnmatchcase(self.path, pattern) for pattern in patterns)

    def function(self) -> Callable[..., Any]:
        """Import the function.

        Raises:
            ConfigError: there is no such module or function.
        """
        return _imported(self.path)

    def apply(self, value: Value, draws: Draws) -> Value:
        """Return what the function makes of the value.

        Raises:
            CorruptSampleError: the function raised ValueError.
            ConfigError: it failed otherwise, or returned something that cannot travel.
        """
        try:
            result = self.function()(value, draws, **self.params)
        except (HeadraceError, MemoryError):
            raise
        except ValueError as error:
            raise CorruptSampleError(
                f"user op {self.path} refuses the sample: {reason_of(error)}"
            ) from error
        except Exception as error:
            raise ConfigError(
                f"user op {self.path} failed with {type(error).__name__}: {reason_of(error)}; "
                "mend it, or raise ValueError for samples that are corrupt"
            ) from error
        return _plain(result, self.path)

    def cost_s(self, spec: Spec) -> float:  # noqa: ARG002 - nothing is known of it
        """Return a guess [s]; ``explain --measure`` knows better."""
        return cost.USER


@lru_cache(maxsize=256)
def _imported(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"user op {path!r} cannot be imported: {error}; install its package on every host"
        ) from error
    if not callable(found):
        raise ConfigError(f"user op {path!r} is a {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function


def _plain(value: object, path: str) -> Value:
    """Return the value as a frame would give it back, so that it does not show where it was made.

    An array is copied: the function may keep its own, and later ops write in place.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in _PLAIN_KINDS:
        return np.array(value, value.dtype.newbyteorder("="), order="C")
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return int(value)
    raise ConfigError(
        f"user op {path} returned {_described(value)}; return an array of plain numbers, bytes, "
        "text or a number of 64 bits"
    )


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return "an integer too large" if isinstance(value, int) else type(value).__name__
