"""What is given goes before what the environment says, for whatever a client asks."""

from __future__ import annotations

import pytest

from headrace.client.endpoints import find_controller, find_token
from headrace.core.errors import ConfigError


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONTROLLER", "http://there:1")
    monkeypatch.setenv("HEADRACE_TOKEN", "said")


def test_the_environment_counts_where_nothing_is_given() -> None:
    found = find_controller(None)
    assert found is not None
    assert (found.address, found.token) == ("http://there:1", "said")


def test_what_is_given_counts_first() -> None:
    found = find_controller("http://here:1", token="given", ca_file="ca.pem")
    assert found is not None
    assert (found.address, found.token, found.ca_file) == ("http://here:1", "given", "ca.pem")


def test_an_empty_address_names_no_controller() -> None:
    assert find_controller("") is None


def test_an_empty_token_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_token("") is None
    monkeypatch.setenv("HEADRACE_TOKEN", "")
    assert find_token(None) is None
    found = find_controller(None)
    assert found is not None
    assert found.token is None


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="not of the form"):
        find_controller("nonsense")
