"""How long a file system of fsspec is waited for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.errors import ConfigError
from headrace.storage.waits import read_waits

WAIT_VARIABLES = {"timeout_s": "HEADRACE_FSSPEC_TIMEOUT_S"}
"""Option → variable of the environment that sets it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FsspecConfig:
    """Bounds of waiting."""

    timeout_s: float = 60.0
    """Longest call, and a second more for each megabyte that it moves [s]."""

    def __post_init__(self) -> None:
        if not self.timeout_s > 0:
            raise ConfigError(f"fsspec.timeout_s={self.timeout_s:g} must be above 0")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> FsspecConfig:
        """Read ``WAIT_VARIABLES``.

        Raises:
            ConfigError: one is no number above 0.
        """
        return cls(**read_waits(WAIT_VARIABLES, environment))
