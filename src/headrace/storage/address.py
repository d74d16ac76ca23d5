"""URLs of remote stores, brought to one form so that they can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from headrace.core.errors import CallerError

_DEFAULT_PORTS = {"hdfs": 8020}

_WITH_USER = ("abfs", "abfss", "sftp", "ssh", "smb", "ftp")
"""Schemes in whose URLs something stands before the host: a container of Azure, or a user."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A folder of a remote store, taken apart. Pure: nothing is asked of the store."""

    scheme: str
    authority: str
    """Host and port, or the name of a service as written, since configurations tell ``Prod``
    from ``prod``; empty for the store's default. With Azure's container or a user before an ``@``
    where the scheme has one."""

    folders: tuple[str, ...]
    """Names from the store's root down, percent signs decoded."""

    @classmethod
    def parse(cls, url: str) -> StoreAddress:
        """Take a URL apart; empty folders, ``.``, and the letter case of a host do not count.

        Percent signs are decoded once, before folders are looked at.

        Raises:
            CallerError: it is no URL of a store, or its path has ``..`` or a zero byte in it.
        """
        try:
            parts = urlsplit(url)
            is_host = parts.port is not None
        except ValueError:
            raise CallerError(f"{masked(url)!r} is not a URL; is its port a number?") from None
        if not parts.scheme or not url[len(parts.scheme) :].startswith("://"):
            raise CallerError(f"{masked(url)!r} is not of the form SCHEME://HOST:PORT/PATH")
        if parts.password is not None:
            raise CallerError(
                f"{masked(url)!r} has a secret in it, which URLs keep from nobody; give it to the "
                "store in the environment"
            )
        has_user = "@" in parts.netloc and parts.scheme not in _WITH_USER
        if parts.query or parts.fragment or has_user:
            raise CallerError(
                f"{masked(url)!r}: a user, '?' or '#' mean nothing to a store; write '?' and '#' "
                "in a name as %3F and %23"
            )
        authority = parts.netloc.lower() if is_host else parts.netloc
        return cls(parts.scheme, authority, _folders(url, parts.path))

    def holds(self, other: StoreAddress) -> bool:
        """Tell whether ``other`` is this folder or lies below it."""
        return self._store == other._store and (other.folders[: len(self.folders)] == self.folders)

    @property
    def _store(self) -> tuple[str, str]:
        port = _DEFAULT_PORTS.get(self.scheme)
        return self.scheme, self.authority.removesuffix(f":{port}") if port else self.authority

    @property
    def url(self) -> str:
        """The one form of the URL, without a slash at the end of a path."""
        return f"{self.scheme}://{self.authority}/{quote('/'.join(self.folders))}"


def masked(url: str) -> str:
    """Return a URL as messages may show it: without what could be a secret."""
    scheme, start, rest = url.partition("://")
    rest, query, _ = rest.partition("?")
    if "@" in rest.partition("/")[0] or not _has_port_or_none(url):
        rest = "…" + "".join(rest.rpartition("@")[1:]) * ("@" in rest)
    return f"{scheme}{start}{rest}" + "?…" * bool(query)


def _has_port_or_none(url: str) -> bool:
    try:
        urlsplit(url).port  # noqa: B018 - raises where it is no number, as of a password
    except ValueError:
        return False
    return True


def _folders(url: str, path: str) -> tuple[str, ...]:
    names = tuple(name for name in unquote(path).split("/") if name not in ("", "."))
    if ".." in names or "\0" in path + "".join(names):
        raise CallerError(
            f"{masked(url)!r} has '..' or a zero byte in its path; write the path in full"
        )
    return names
