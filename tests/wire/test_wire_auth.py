from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ConfigError, NotFoundError
from headrace.wire.auth import TOKEN_VARIABLE, is_authorized, load_token, new_token


def test_tokens_are_long_different_and_accepted_where_they_are_loaded(tmp_path: Path) -> None:
    token = new_token()
    assert token != new_token()
    (tmp_path / "token").write_text(f"{token}\n")
    assert load_token(tmp_path / "token") == token


def test_the_environment_is_asked_when_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "0123456789abcdef")
    assert load_token(None) == "0123456789abcdef"
    monkeypatch.delenv(TOKEN_VARIABLE)
    with pytest.raises(ConfigError, match="--token-file"):
        load_token(None)


@pytest.mark.parametrize(
    "text", ["", "short", "has a blank in the middle", "zwölf-und-mehr-zeichen"]
)
def test_a_weak_or_broken_token_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError):
        load_token(tmp_path / "token")


def test_a_missing_token_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="secrets"):
        load_token(tmp_path / "nothing")


@pytest.mark.parametrize(
    "header", [None, b"", b"Bearer", b"Bearer wrong", b"Basic secret", b"secret"]
)
def test_only_the_exact_bearer_token_is_let_in(header: bytes | None) -> None:
    assert not is_authorized(header, "secret")
    assert is_authorized(b"Bearer secret", "secret")
