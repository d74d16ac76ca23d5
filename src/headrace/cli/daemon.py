"""What verbs that run a daemon share: TLS files, a configuration file, telling who started it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.errors import ConfigError, NotFoundError

if TYPE_CHECKING:
    from headrace.wire.listening import TlsFiles


def tls_files(cert: Path | None, key: Path | None) -> TlsFiles | None:
    """Return certificate and key, or None when neither was given.

    Raises:
        ConfigError: one was given without the other.
    """
    from headrace.wire.listening import TlsFiles

    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ConfigError("TLS needs both --tls-cert and --tls-key; give the other one too")
    return TlsFiles(cert=cert, key=key)


def announce_address(text: bytes, *, file: Path | None, descriptor: int | None) -> None:
    """Write what a program that started the daemon waits for; a file appears whole.

    Raises:
        ConfigError: it cannot be written there.
    """
    try:
        if file is not None:
            aside = file.with_name(f".{file.name}.part")
            aside.write_bytes(text)
            aside.replace(file)
        if descriptor is not None:
            with os.fdopen(descriptor, "wb") as pipe:
                pipe.write(text)
    except OSError as error:
        raise ConfigError(
            f"the address cannot be told as --ready-file or --ready-fd ask: {error}"
        ) from error


def read_toml(path: Path) -> Mapping[str, Any]:
    """Return a configuration file's values.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"no configuration file at {path}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from error
