"""From a URL to a bucket and the folder in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import quote

from headrace.core.errors import CallerError
from headrace.storage.address import StoreAddress

Kind: TypeAlias = Literal["s3", "gs", "az"]

SCHEMES: dict[str, Kind] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "https": "az",
}
"""Schemes of URLs; ``https`` only with a host of ``AZURE_HOSTS``."""

AZURE_HOSTS = (".blob.core.windows.net", ".dfs.core.windows.net")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectsAddress:
    """Where a dataset is."""

    kind: Kind
    """Whose protocol is spoken."""

    bucket: str
    """Name of the bucket, or of Azure's container."""

    root: str
    """Beginning of all keys, without slashes at its ends; empty: the whole bucket."""

    account: str | None
    """Azure's account, where the URL names it."""

    url: str
    """The one form of the URL, without a slash at its end."""

    def key(self, path: str) -> str:
        """Return the key of a path below the root; of the empty path, the root itself."""
        return f"{self.root}/{path}" if self.root and path else self.root or path

    def url_of(self, path: str) -> str:
        """Return the URL of a path below the root."""
        return self.url_of_key(self.key(path))

    def url_of_key(self, key: str) -> str:
        """Return the URL of a key of the bucket, at or above the root as well."""
        bucket = self.url.removesuffix(quote(self.root)).removesuffix("/")
        return f"{bucket}/{quote(key)}" if key else bucket

    def path(self, key: str) -> str:
        """Return the path below the root of a key that lies there."""
        return key[len(self.root) + 1 :] if self.root else key


def parse_address(url: str) -> ObjectsAddress:
    """Take a URL apart: ``s3://BUCKET/PATH``, ``gs://BUCKET/PATH``, and those of Azure.

    Azure's are ``az://CONTAINER/PATH``, ``abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH``
    and ``https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH``.

    Raises:
        CallerError: no bucket is named, or a host that is not Azure's.
    """
    address = StoreAddress.parse(url)
    bucket, folders, account = address.authority, address.folders, None
    if address.scheme == "https":
        account = _account(url, bucket)
        bucket, folders = (folders[0] if folders else ""), folders[1:]
    elif "@" in bucket:
        bucket, _, host = bucket.partition("@")
        account = _account(url, host)
    if not bucket:
        raise CallerError(f"{address.url} names no bucket; write {address.scheme}://BUCKET/PATH")
    return ObjectsAddress(
        kind=SCHEMES[address.scheme],
        bucket=bucket,
        root="/".join(folders),
        account=account,
        url=address.url.removesuffix("/"),
    )


def _account(url: str, host: str) -> str:
    for ending in AZURE_HOSTS:
        if host.endswith(ending):
            return host.removesuffix(ending)
    raise CallerError(
        f"{url} names the host {host}, which is none of Azure's (*{', *'.join(AZURE_HOSTS)}); for "
        "files behind a web server write fsspec+https://"
    )
