from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from headrace.core.errors import CallerError
from headrace.devhdfs.state import Register


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose state directory cannot be made."""
    (tmp_path / "file").touch()
    (tmp_path / "shared").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "shared"))
    return {"XDG_STATE_HOME": str(tmp_path / "file" / "below")}


def test_without_a_home_the_register_is_kept_where_only_its_user_writes(
    nowhere: dict[str, str], tmp_path: Path
) -> None:
    assert Register.of_user(nowhere).names() == []
    folder = tmp_path / "shared" / f"headrace-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_register_that_someone_else_may_have_put_there_is_not_believed(
    nowhere: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shared" / f"headrace-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(CallerError, match="set XDG_STATE_HOME"):
        Register.of_user(nowhere)
