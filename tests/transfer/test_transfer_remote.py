"""What ends a copy at an agent is raised here as what it was."""

from __future__ import annotations

import pytest

from headrace.core.errors import (
    CallerError,
    CorruptDataError,
    DeadlineError,
    HeadraceError,
    NotFoundError,
    RefusedError,
    StaleError,
    StorageError,
)
from headrace.transfer.remote import CopyProgress, _error, code_of


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        *((kind, kind) for kind in (StaleError, NotFoundError, CorruptDataError, CallerError)),
        (StorageError, StorageError),
        (DeadlineError, StorageError),
        (ValueError, RefusedError),
    ],
)
def test_an_error_keeps_its_kind_and_its_words(
    raised: type[Exception], told: type[HeadraceError]
) -> None:
    progress = CopyProgress(moved_bytes=0, error="why", code=code_of(raised("why")))
    error = _error(progress)
    assert type(error) is told
    assert str(error) == "why"
