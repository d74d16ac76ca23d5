"""The blocks of one file on the DataNodes' disks: found, and damaged on purpose."""

from __future__ import annotations

import http.client
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from headrace.core.errors import NotFoundError, RemoteError
from headrace.devhdfs.cluster import Cluster, DataNode

_TIMEOUT_S = 30.0
_BLOCK = re.compile(r"\d+\. \S+:(blk_\d+)_\d+ len=(\d+)")
_PAGE_BYTES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """One replica of a block."""

    datanode: DataNode
    file: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One block of a file."""

    name: str
    """``blk_`` and a number, as the files are called."""

    length: int
    """[bytes]"""

    copies: tuple[Copy, ...]


def blocks_of(cluster: Cluster, path: str) -> list[Block]:
    """Return a file's blocks in order, each with its copies on the cluster's disks.

    Args:
        cluster: A running one.
        path: Absolute, without the URL's host.

    Raises:
        NotFoundError: there is no such file, or it is empty.
        RemoteError: the NameNode does not answer.
    """
    copies = [
        Copy(datanode=datanode, file=file)
        for datanode in cluster.datanodes
        for file in datanode.block_files()
    ]
    found = _BLOCK.findall(_check(cluster.namenode.address.http, path))
    if not found:
        raise NotFoundError(f"the cluster knows no blocks of {path}; name a file that has bytes")
    return [
        Block(
            name=name,
            length=int(length),
            copies=tuple(copy for copy in copies if copy.file.name == name),
        )
        for name, length in found
    ]


def _check(http_address: str, path: str) -> str:
    """Return what ``hdfs fsck PATH -files -blocks`` prints."""
    connection = http.client.HTTPConnection(http_address, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"/fsck?path={quote(path)}&files=1&blocks=1")
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise RemoteError(
            f"the NameNode at {http_address} cannot be asked for the blocks of {path}: {error}; "
            "wait until the cluster is ready"
        ) from error
    finally:
        connection.close()


def damage(copies: Sequence[Copy]) -> None:
    """Flip a byte in every 4 KiB of some copies, as a dying disk might; checksums stay.

    Readers of any range notice, and are served by another copy while there is one.
    """
    for copy in copies:
        content = bytearray(copy.file.read_bytes())
        for place in range(0, len(content), _PAGE_BYTES):
            content[place] ^= 0xFF
        with copy.file.open("r+b") as file:  # in place: the DataNode may hold it open
            file.write(content)
