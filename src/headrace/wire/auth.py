"""Bearer tokens: where an agent gets its own, and how it compares one that is shown."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from headrace.core.errors import ConfigError, NotFoundError

TOKEN_VARIABLE = "HEADRACE_TOKEN"
"""Environment variable that holds the token where no file is named."""

_SHORTEST = 16


def new_token() -> str:
    """Return a fresh token of 256 random bits."""
    return secrets.token_urlsafe(32)


def load_token(path: str | Path | None) -> str:
    """Return the token from a file, or from the environment when no file is named.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: no token is configured, or it is too short, or has blanks inside.
    """
    if path is None:
        return _checked(os.environ.get(TOKEN_VARIABLE, ""), f"${TOKEN_VARIABLE}")
    try:
        text = Path(path).expanduser().read_text(encoding="ascii")
    except FileNotFoundError as error:
        raise NotFoundError(
            f"no token file at {path}; make one with "
            f"`python -c 'import secrets; print(secrets.token_urlsafe(32))' > {path}`"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {path} cannot be read: {error}") from error
    return _checked(text.strip(), str(path))


def is_authorized(header: bytes | None, token: str) -> bool:
    """Return whether an ``Authorization`` header shows the token; in constant time."""
    expected = b"Bearer " + token.encode("ascii")
    return hmac.compare_digest(header or b"", expected)


def _checked(token: str, source: str) -> str:
    if not token:
        raise ConfigError(
            f"no token in {source}; give --token-file, or set ${TOKEN_VARIABLE} "
            "(never on the command line, where every user of the host can read it)"
        )
    if len(token) < _SHORTEST or not token.isascii() or any(c.isspace() for c in token):
        raise ConfigError(
            f"the token in {source} must have at least {_SHORTEST} ASCII characters and no blanks"
        )
    return token
