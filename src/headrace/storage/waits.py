"""Reads from the environment how long a store may be waited for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.errors import ConfigError

LONGEST_S = 1e9
"""Longest wait, about 30 years: clients of stores count no further, infinity least of all [s]."""


def read_waits(variables: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the waits that the environment sets, by option [s].

    Args:
        variables: Option → variable of the environment that sets it.
        environment: Values; those that are not there, or empty, set nothing.

    Raises:
        ConfigError: one is no number, or longer than ``LONGEST_S``.
    """
    return {
        option: _seconds(variable, environment[variable])
        for option, variable in variables.items()
        if environment.get(variable)
    }


def _seconds(variable: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise ConfigError(f"{variable}={text!r} must be seconds, as 30 or 2.5") from error
    if seconds > LONGEST_S:
        raise ConfigError(f"{variable}={text} must be {LONGEST_S:g} s at most, which is for ever")
    return seconds
