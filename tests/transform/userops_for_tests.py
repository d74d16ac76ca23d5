"""Functions that the tests use as users' own ops."""

from __future__ import annotations

import numpy as np

NOT_A_FUNCTION = 3


def darken(value: np.ndarray, draws: object, *, by: int) -> np.ndarray:
    return value // np.uint8(by)


def noise(value: np.ndarray, draws: object) -> np.ndarray:
    return value ^ np.uint8(draws.integer(256))  # type: ignore[attr-defined]


def refuse(value: object, draws: object) -> object:
    raise ValueError("too dark")


def break_down(value: object, draws: object) -> object:
    raise KeyError("oops")


def starve(value: object, draws: object) -> object:
    raise MemoryError


def give_object(value: object, draws: object) -> object:
    return object()


KEPT = np.ones((2, 2, 3), np.float32)


def give_kept(value: object, draws: object) -> object:
    return KEPT


GIVEN: list[object] = []
"""What ``give`` returns."""


def give(value: object, draws: object) -> object:
    return GIVEN[-1]
