"""A steward whose journal is closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from reporters_for_tests import Desk


@pytest.fixture
def open_desk() -> Iterator[Callable[..., Desk]]:
    opened: list[Desk] = []

    def open_one(*args: Any, **limits: Any) -> Desk:
        opened.append(Desk(*args, **limits))
        return opened[-1]

    yield open_one
    for desk in opened:
        desk.close()


@pytest.fixture
def desk(open_desk: Callable[..., Desk]) -> Desk:
    return open_desk()
