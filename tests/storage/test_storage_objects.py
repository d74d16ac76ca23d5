from __future__ import annotations

import itertools
from pathlib import Path
from urllib.parse import quote

import obstore
import pytest

from contract.storage_contract import StorageContract
from headrace.storage.objects.storage import ObjectStorage
from headrace.storage.port import Storage
from stores.seaweed import BUCKET, Seaweed

NUMBERS = itertools.count()


class TestContract(StorageContract):
    renames_by_copying = True

    @pytest.fixture(autouse=True)
    def server(self, s3: Seaweed) -> None:
        self.s3 = s3

    def make(self, place: Path) -> Storage:
        folder = f"contract/{next(NUMBERS)} ä#%25"
        obstore.put(self.s3.store(), f"{folder}/x", b"")
        storage = ObjectStorage(f"s3://{BUCKET}/{quote(folder)}")
        storage.delete("x")
        return storage
