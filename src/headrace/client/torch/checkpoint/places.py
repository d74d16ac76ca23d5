"""Names of checkpoints, as torch hands them over."""

from __future__ import annotations

import os

from headrace.core.errors import CallerError
from headrace.storage.opening import require_openable


def can_open(checkpoint_id: str | os.PathLike[str]) -> bool:
    """Tell whether this is a path, or a URL of a store that can be used here; it is not asked."""
    url = os.fspath(checkpoint_id)
    if "://" not in url:
        return True
    try:
        require_openable(url)
    except CallerError:
        return False
    return True
