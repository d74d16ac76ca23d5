"""From a URL as users write it to a storage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.core.errors import CallerError, ConfigError
from headrace.storage.address import masked
from headrace.storage.fsspecconfig import WAIT_VARIABLES as FSSPEC_WAITS
from headrace.storage.hdfs.config import WAIT_VARIABLES as HDFS_WAITS
from headrace.storage.hubcache import open_local
from headrace.storage.objects.address import SCHEMES
from headrace.storage.objects.config import WAIT_VARIABLES as OBJECTS_WAITS
from headrace.storage.port import Storage

WAIT_VARIABLES = (
    *HDFS_WAITS.values(),
    *OBJECTS_WAITS.values(),
    *FSSPEC_WAITS.values(),
)
"""Variables of the environment that say how long a store is waited for [s]."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


def open_storage(url: str) -> Storage:
    """Open the store that a URL or a plain path names.

    Args:
        url: An absolute or relative path, also of a snapshot in Hugging Face's cache, ``file:``
            with an absolute path, ``hdfs:`` with a
            NameNode or nameservice (or neither, for the one configured) and a path, an object
            store's as ``headrace.storage.objects.address`` describes them, or
            ``fsspec+SCHEME:`` for whatever fsspec knows (without ``fsspec+`` where no other
            backend has the scheme).

    Raises:
        CallerError: the scheme is not supported; names those that are, and the nearest.
        NotFoundError: there is no such directory; names the nearest one that is there.
        ConfigError: the store needs a package or a configuration that is missing.
        StorageError: the store cannot be reached.
    """
    if not url:
        raise CallerError("the path or URL is empty; is the variable set that it is from?")
    match = _SCHEME.match(url)
    if match is None or Path(url).exists():
        return open_local(url)
    scheme = match.group(1).lower()
    opener = _OPENERS.get(scheme) or (_open_fsspec if _is_for_fsspec(scheme) else None)
    if opener is None:
        raise CallerError(_unknown(scheme, url))
    return opener(url)


def require_openable(url: str) -> str:
    """Check that what a URL needs is installed and configured here; the store is not asked.

    Returns:
        The URL by which the storage calls itself: where none was named, with the NameNode that
        is configured.

    Raises:
        CallerError: the scheme is not supported, or something is missing; says what to do.
    """
    scheme = urlsplit(url).scheme
    if scheme not in _OPENERS and _is_for_fsspec(scheme):
        with _requiring("fsspec", "fsspec", url):
            from headrace.storage.fsspecstore import require_installed
        return require_installed(url)
    if scheme not in _OPENERS:
        raise CallerError(_unknown(scheme, url))
    if scheme in SCHEMES:
        with _requiring("obstore", "objects", url):
            from headrace.storage.objects.storage import require_configured
        return require_configured(url)
    if scheme == "hdfs":
        from headrace.storage.hdfs.address import parse_address
        from headrace.storage.hdfs.config import HdfsConfig
        from headrace.storage.hdfs.namenode import NameNodes

        config = HdfsConfig.from_environment()
        address = parse_address(url, config)
        NameNodes(address, config)
        return address.url
    return url


def _open_file_url(url: str) -> Storage:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise CallerError(
            f"{url} names the host {parts.netloc!r}; a file: URL is local, write file:///{parts.netloc}…"
        )
    return open_local(unquote(parts.path))


def _open_hdfs(url: str) -> Storage:
    from headrace.storage.hdfs import HdfsStorage

    return HdfsStorage(url)


def _open_objects(url: str) -> Storage:
    with _requiring("obstore", "objects", url):
        from headrace.storage.objects.storage import ObjectStorage
    return ObjectStorage(url)


def _open_fsspec(url: str) -> Storage:
    with _requiring("fsspec", "fsspec", url):
        from headrace.storage.fsspecstore import FsspecStorage
    return FsspecStorage(url)


def _is_for_fsspec(scheme: str) -> bool:
    if scheme.startswith("fsspec+"):
        return True
    try:
        from headrace.storage.fsspecstore import is_known
    except ModuleNotFoundError:
        return False
    return is_known(scheme)


@contextmanager
def _requiring(package: str, extra: str, url: str) -> Iterator[None]:
    """Say how to install a package that an import in the block does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ConfigError(
            f"cannot open {masked(url)}: it needs the package {package}; "
            f"`pip install 'headrace[{extra}]'`"
        ) from error


_OPENERS: dict[str, Callable[[str], Storage]] = {
    "file": _open_file_url,
    "hdfs": _open_hdfs,
    **dict.fromkeys(SCHEMES, _open_objects),
}


def _unknown(scheme: str, url: str) -> str:
    known = ", ".join(f"{name}:" for name in sorted(_OPENERS))
    close = get_close_matches(scheme, _OPENERS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}:?" if close else "mount it and give the path, or fsspec+"
    return (
        f"cannot open {masked(url)}: scheme {scheme!r} is not supported (a plain path or {known}); "
        f"{hint}"
    )
