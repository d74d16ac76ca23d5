"""Every block of the page about HDFS runs as printed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader

from headrace.devhdfs.state import Register


@pytest.fixture
def no_cluster(
    hadoop: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Reader
) -> Iterator[None]:
    """A user without clusters; one that the page left up, because it failed, is stopped."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    subprocess.run(["headrace", "devhdfs", "down"], timeout=60, check=True)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_page_about_hdfs_runs_as_printed(
    no_cluster: None, reader: Reader, capfd: pytest.CaptureFixture[str]
) -> None:
    reader.follow((REPOSITORY / "docs" / "hdfs.md").read_text())
    said = capfd.readouterr().out
    assert "made by agents" in said
    assert "made by agents 0, sent raw 0," not in said, "the agent had a part in it"
    assert Register.of_user().names() == [], "the page stops its cluster"
