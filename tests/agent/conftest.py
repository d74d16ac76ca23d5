"""Closes what the tests of this folder opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client_for_tests import OPENED


@pytest.fixture(autouse=True)
def every_connection_is_closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
