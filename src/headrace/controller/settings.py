"""The policy's limits from a TOML table: every key is checked, a wrong one gets the nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import msgspec

from headrace.core.errors import ConfigError
from headrace.core.keys import key_hint
from headrace.policy.reservation.limits import ReservationLimits


def reservation_limits(table: Mapping[str, Any], *, source: str) -> ReservationLimits:
    """Return the limits that a table sets; what it leaves out keeps its default.

    Args:
        table: Keys as the fields of ``ReservationLimits``, tables within it as theirs.
        source: What the table is called in errors.

    Raises:
        ConfigError: a key is unknown, or a value is wrong.
    """
    _check_keys(table, ReservationLimits, source)
    try:
        return msgspec.convert(table, ReservationLimits)
    except msgspec.ValidationError as error:
        reason = error.__cause__ if isinstance(error.__cause__, ConfigError) else error
        raise ConfigError(f"{source}: {reason}") from error


def _check_keys(table: Mapping[str, Any], kind: type, where: str) -> None:
    known = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    for key, value in table.items():
        if key not in names:
            raise ConfigError(f"{where}: unknown key {key!r}; {key_hint(key, names)}")
        if is_dataclass(known[key]) and isinstance(value, Mapping):
            _check_keys(value, known[key], f"{where}.{key}")
