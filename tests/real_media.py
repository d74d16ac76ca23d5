"""The shared folder of media that other projects test with, where it lies beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

MEDIA = Path(__file__).resolve().parents[2] / "shared/data/media"

needs_media = pytest.mark.skipif(
    not MEDIA.is_dir(), reason="the shared folder of awkward media is not here"
)
