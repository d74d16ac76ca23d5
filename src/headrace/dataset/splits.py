"""Tells a folder of splits, which is several datasets, from a folder of classes: pure."""

from __future__ import annotations

from collections.abc import Sequence

SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval"}
)
"""What folders of splits are called, in small letters."""


def splits_complaint(url: str, classes: Sequence[str]) -> str | None:
    """Return what is odd about a dataset all of whose classes are called like splits, or None.

    Args:
        url: Of the dataset.
        classes: The names of its classes.
    """
    if not classes or not {name.lower() for name in classes} <= SPLITS:
        return None
    return (
        f"the classes of {url} are {', '.join(classes)}, which look like splits: take each as a "
        f"dataset of its own, such as {url.rstrip('/')}/{classes[0]}"
    )
