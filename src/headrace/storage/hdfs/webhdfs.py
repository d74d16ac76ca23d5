"""Asks the NameNodes' HTTP port for what hdfs-native cannot: places of blocks, joined files.

When the library can, its calls over RPC take these ones' places behind ``locate`` and ``concat``.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from headrace.core.errors import HeadraceError, NotFoundError, ProtocolError, StorageError
from headrace.storage.hdfs.address import HdfsAddress
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.webports import WEB_ERRORS, WebAnswer, WebPorts
from headrace.storage.port import BlockPlace, Replica


class WebHdfs:
    """WebHDFS of a cluster's NameNodes. Thread-safe."""

    def __init__(self, address: HdfsAddress, config: HdfsConfig, ports: WebPorts) -> None:
        self._addresses: Sequence[str] = address.web
        self._user = config.user
        self._ports = ports

    def locate(self, path: str) -> Sequence[BlockPlace]:
        """Return the blocks of the file at an absolute path, and who holds them.

        Raises:
            NotFoundError: there is no such file.
            StorageError: no NameNode tells; the message says what each answered.
        """
        tried = f"locate {path}"
        answer = self._ask(tried, self._ports.get, self._target(path, "GETFILEBLOCKLOCATIONS"))
        try:
            blocks = json.loads(answer.body)["BlockLocations"]["BlockLocation"]
            return [_block_place(block) for block in blocks]
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(
                f"cannot {tried}: {self._addresses[0]} answered without block locations; "
                "is it the HTTP port of a NameNode of Hadoop 3?"
            ) from error

    def concat(self, path: str, parts: Sequence[str]) -> None:
        """Append files to a file of the same folder, all or none; they are gone then.

        Args:
            path: Absolute, and not empty.
            parts: Absolute, not empty, without commas in their names.

        Raises:
            NotFoundError: one of them is not there.
            StorageError: refused, or nobody answers; it may have been done.
        """
        target = self._target(path, "CONCAT", sources=",".join(parts))
        self._ask(f"append to {path}", self._ports.post, target)

    def _target(self, path: str, operation: str, **options: str) -> str:
        query = urlencode({"op": operation, "user.name": self._user, **options})
        return f"/webhdfs/v1{quote(path)}?{query}"

    def _ask(self, tried: str, ask: Callable[[str, str], WebAnswer], target: str) -> WebAnswer:
        answers = []
        for address in self._addresses:
            try:
                answer = ask(address, target)
            except WEB_ERRORS as error:
                answers.append(f"{address} {error or type(error).__name__}")
                continue
            if answer.status == http.HTTPStatus.OK:
                self._prefer(address)
                return answer
            error_name, message = _remote_exception(answer.body)
            if error_name not in ("StandbyException", "RetriableException"):
                raise _refusal(tried, address, answer.status, error_name, message)
            answers.append(f"{address} is on standby or starting")
        raise StorageError(
            f"cannot {tried}: {'; '.join(answers)}; is WebHDFS on (dfs.webhdfs.enabled), and "
            "is its address in hdfs-site.xml (dfs.namenode.http-address) right?"
        )

    def _prefer(self, address: str) -> None:
        """Ask this one first from now on."""
        self._addresses = sorted(self._addresses, key=lambda other: other != address)


def _block_place(block: Mapping[str, Any]) -> BlockPlace:
    replicas = zip(block["hosts"], block["names"], strict=True)
    return BlockPlace(
        offset=block["offset"],
        length=block["length"],
        replicas=tuple(Replica(host, address) for host, address in replicas),
    )


def _remote_exception(body: bytes) -> tuple[str, str]:
    try:
        remote = json.loads(body)["RemoteException"]
        return str(remote["exception"]), str(remote["message"]).split("\n", 1)[0]
    except (ValueError, KeyError, TypeError):
        return "", ""


def _refusal(tried: str, address: str, status: int, name: str, message: str) -> HeadraceError:
    if name == "FileNotFoundException":
        return NotFoundError(f"cannot {tried}: no such file ({message})")
    if status == http.HTTPStatus.UNAUTHORIZED:
        return StorageError(
            f"cannot {tried}: {address} asks for Kerberos (SPNEGO), which is not spoken "
            "here; give agents the hosts they sit beside, or allow simple authentication there "
            "(hadoop.http.authentication.type)"
        )
    what = f"{name}: {message}" if name else "no reason"
    return StorageError(f"cannot {tried}: {address} answered {status}, {what}; look at its log")
