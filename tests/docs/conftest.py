"""A directory with a small dataset, and a reader who stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_reader import Reader

from headrace.demo.dataset import build_dataset
from headrace.demo.recipes import DatasetSize, plan_dataset
from headrace.demo.sources import carried_sources
from headrace.devhdfs.ports import PortReservation

SMALL = DatasetSize(photos=60, captioned=4, clips=3, truncated=1)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a small ``headrace-demo/dataset``."""
    directory = tmp_path_factory.mktemp("docs")
    sources = carried_sources()
    build_dataset(
        directory / "headrace-demo",
        sources=sources,
        recipes=plan_dataset(sources, SMALL, seed=7),
        progress=lambda *_: None,
        workers=2,
    )
    return directory


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else is given, for a controller that a page starts."""
    with PortReservation() as reserved:
        yield reserved.take()


@pytest.fixture
def reader(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader in that directory; what it started in the background is ended."""
    reader = Reader(place, monkeypatch)
    yield reader
    reader.leave()
