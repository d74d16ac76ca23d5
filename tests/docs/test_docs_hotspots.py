"""Every block of the page about hotspots runs as printed, but in a cluster that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_reader import REPOSITORY, Reader

from headrace.devhdfs.cluster import Cluster


def test_the_page_about_hotspots_runs_as_printed(
    hdfs: Cluster,
    hdfs_dir: str,
    port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("HEADRACE_CONTROLLER", "HEADRACE_TOKEN"):
        monkeypatch.setenv(name, "")
    text = (REPOSITORY / "docs" / "hotspots.md").read_text()
    text = re.sub(r"^\$ headrace devhdfs .*\n", "", text, flags=re.MULTILINE)
    text = text.replace("headrace-demo/hotspots/client/conf", str(hdfs.config_dir))
    text = text.replace("127.0.0.1:7410", f"127.0.0.1:{port}")
    reader = Reader(tmp_path, monkeypatch)
    try:
        reader.follow(text.replace("hdfs:///", f"{hdfs_dir}/"))
    finally:
        reader.leave()
    assert "True 3" in capfd.readouterr().out
