"""Sines and logarithms that are the same number on every host.

NumPy takes another code path for them on CPUs with AVX-512, and libraries of C differ in the last
bit. These are made of additions, multiplications and divisions alone, which IEEE 754 rounds in
one way only; within 3e-15 of the true value, which is below what float32 can tell.
"""

from __future__ import annotations

from math import factorial, pi

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SINE = [(-1) ** k / factorial(2 * k + 1) for k in range(11)]
"""Taylor's series of sin(x) / x in x squared; the rest is below 1e-18 up to a right angle."""

_ATANH = [1 / (2 * k + 1) for k in range(11)]
"""Series of artanh(x) / x in x squared; the rest is below 1e-17 for x up to 0.172."""

_LN_2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476


def sin_pi(x: Floats) -> Floats:
    """Return the sine of pi times each number."""
    whole = np.rint(x)
    sign = 1.0 - 2.0 * np.mod(whole, 2.0)
    angle = (x - whole) * pi
    return sign * angle * _series(_SINE, angle * angle)


def cos_pi(x: Floats) -> Floats:
    """Return the cosine of pi times each number."""
    return sin_pi(x + 0.5)


def sinc(x: Floats) -> Floats:
    """Return sin(pi x) / (pi x), 1 at 0."""
    away = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, sin_pi(away) / (away * pi))


def ln(x: Floats) -> Floats:
    """Return the natural logarithm of numbers above 0."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < _ROOT_HALF
    mantissa = np.where(small, mantissa * 2, mantissa)
    ratio = (mantissa - 1) / (mantissa + 1)
    result: Floats = 2 * ratio * _series(_ATANH, ratio * ratio) + (exponent - small) * _LN_2
    return result


def _series(coefficients: list[float], x: Floats) -> Floats:
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result
