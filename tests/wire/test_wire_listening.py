"""Where a daemon listens."""

from __future__ import annotations

import pytest

from headrace.wire.listening import Listen


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("127.0.0.1:0", True),
        ("[::1]:7411", True),
        ("unix:/run/headrace.sock", True),
        ("0.0.0.0:7411", False),
        (":7411", False),
        ("storage-1:7411", False),
    ],
)
def test_an_address_knows_whether_other_hosts_reach_it(text: str, local: bool) -> None:
    assert Listen.parse(text).is_local == local
