from __future__ import annotations

from pathlib import Path

import pytest

from contract.storage_contract import StorageContract
from headrace.storage.hdfs import HdfsConfig, HdfsStorage


class TestHdfsStorage(StorageContract):
    @pytest.fixture
    def storage(self, hdfs_dir: str) -> HdfsStorage:
        return HdfsStorage(hdfs_dir, HdfsConfig())

    def make(self, place: Path) -> HdfsStorage:
        raise AssertionError("the fixture makes it")
