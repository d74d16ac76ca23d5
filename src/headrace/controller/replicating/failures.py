"""Which kind of failure an error is: whether to try again, and how."""

from __future__ import annotations

from headrace.core.errors import (
    CallerError,
    CorruptDataError,
    HeadraceError,
    NotFoundError,
    RefusedError,
    StaleError,
)
from headrace.policy.replication.events import Failure

_KINDS: tuple[tuple[type[HeadraceError], Failure], ...] = (
    (NotFoundError, "gone"),
    (StaleError, "changed"),
    (CorruptDataError, "wrong"),
    (CallerError, "refused"),
)


def kind_of(error: HeadraceError | OSError) -> Failure:
    """Return what an error means for what was tried.

    A store that is away, full or closed to this user comes back, or is let in, some time.
    """
    if isinstance(error, RefusedError) and error.code == "stale":
        return "changed"
    return next((kind for form, kind in _KINDS if isinstance(error, form)), "away")
