"""Endpoint, region and keys for S3, as the AWS command line finds them.

obstore reads variables of the environment, tokens of web identities, and what containers and
instances are told of their role; it reads no files of profiles. Of these only keys that are
written there are taken: what a profile asks a program, a browser or another role for is not.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from headrace.core.errors import ConfigError
from headrace.storage.address import masked

if TYPE_CHECKING:
    from obstore.store import S3Config

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
"""Option of a profile → obstore's."""

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

_URL = re.compile(r"https?://[\w.\-\[\]:]+(/\S*)?", re.ASCII)

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")

_OTHER_WAYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
"""Where one of these is set, the environment says who asks."""


def s3_settings(environment: Mapping[str, str] = os.environ) -> S3Config:
    """Return what obstore is to be told: the endpoint, and what only a profile says.

    ``AWS_PROFILE`` names it, else it is ``default``; ``AWS_SHARED_CREDENTIALS_FILE`` and
    ``AWS_CONFIG_FILE`` name the files.

    Raises:
        ConfigError: ``AWS_PROFILE`` names one that has no keys, a file is none of these, or the
            endpoint is no URL.
    """
    profile = _profile(environment)
    found = {}
    endpoint = _first(_ENDPOINTS, environment) or profile.get("endpoint_url")
    if endpoint:
        found["endpoint"] = _checked(endpoint)
    if "region" in profile and not _first(_REGIONS, environment):
        found["region"] = profile["region"]
    if not _first(_OTHER_WAYS, environment):
        found |= {ours: profile[theirs] for theirs, ours in _KEYS.items() if theirs in profile}
        _require_keys(found, environment.get("AWS_PROFILE"))
    return cast("S3Config", found)


def _first(names: Sequence[str], environment: Mapping[str, str]) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def _checked(endpoint: str) -> str:
    if _URL.fullmatch(endpoint) is None or not _has_address(endpoint):  # obstore panics
        raise ConfigError(
            f"the endpoint {masked(endpoint)} is no URL; set AWS_ENDPOINT_URL=http://HOST:PORT, or "
            "https://"
        )
    return endpoint


def _has_address(url: str) -> bool:
    """Whether a URL names a host, and a port, that there can be."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if ":" in host or host.rpartition(".")[2].isdigit():
            ip_address(host)
        return bool(host) and parts.port != 0  # one that is no port is a ValueError
    except ValueError:
        return False


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    name = environment.get("AWS_PROFILE") or "default"
    folder = Path(environment.get("HOME") or "/nonexistent", ".aws")
    keys = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials")
    config = Path(environment.get("AWS_CONFIG_FILE") or folder / "config")
    section = name if name == "default" else f"profile {name}"
    return {**_section(config, section), **_section(keys, name)}


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path)
    except (configparser.Error, UnicodeDecodeError):
        # The error's own text would show the line, and so perhaps a key.
        raise ConfigError(f"{path} is not a file of profiles; mend it") from None
    return dict(parser[name]) if parser.has_section(name) else {}


def _require_keys(found: Mapping[str, str], profile: str | None) -> None:
    if profile and "access_key_id" not in found:
        raise ConfigError(
            f"AWS_PROFILE={profile} has no keys in the files of profiles; if it gets them "
            "elsewhere, put them into the environment: "
            f"eval $(aws configure export-credentials --profile {profile} --format env)"
        )
