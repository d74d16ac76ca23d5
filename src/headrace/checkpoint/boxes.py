"""Whether parts of a tensor overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bounds = npt.NDArray[np.int64]
"""First or end index of each part in each dimension, int64 [parts, dimensions]."""

_MOST_CUTS = 16
"""How often parts are cut into groups before they are compared one by one; a grid of any number
of dimensions takes one cut for each."""

_MOST_PAIRWISE = 2048
"""Parts that are compared one by one; frameworks cut tensors in grids, which never need it."""


class TangledPartsError(Exception):
    """The parts are no grid, and too many to be compared one by one."""


def overlap(begins: Bounds, ends: Bounds) -> bool:
    """Tell whether any two parts have an element in common. None of them is empty.

    Raises:
        TangledPartsError: it would take too long to tell.
    """
    groups = [np.arange(len(begins))]
    for _ in range(_MOST_CUTS):
        cut = [part for group in groups for part in _cut(begins, ends, group)]
        if len(cut) == len(groups):
            break
        groups = [group for group in cut if len(group) > 1]
    return any(_pairwise(begins[group], ends[group]) for group in groups if len(group) > 1)


def _cut(begins: Bounds, ends: Bounds, group: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    """Return groups with planes between them, along the first dimension that has any."""
    for dimension in range(begins.shape[1]):
        order = group[np.argsort(begins[group, dimension], kind="stable")]
        reached = np.maximum.accumulate(ends[order, dimension])
        places = np.flatnonzero(begins[order, dimension][1:] >= reached[:-1]) + 1
        if len(places):
            return list(np.split(order, places))
    return [group]


def _pairwise(begins: Bounds, ends: Bounds) -> bool:
    if len(begins) > _MOST_PAIRWISE:
        raise TangledPartsError
    shared = np.triu(np.ones((len(begins), len(begins)), dtype=bool), 1)
    for dimension in range(begins.shape[1]):
        low, high = begins[:, dimension], ends[:, dimension]
        shared &= (low[:, None] < high) & (low < high[:, None])
    return bool(shared.any())
