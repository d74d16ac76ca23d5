"""Asks the NameNodes' HTTP port where blocks are: hdfs-native does not tell.

When the library does, its answer over RPC takes this one's place behind ``locate``.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from headrace.core.errors import HeadraceError, NotFoundError, ProtocolError, StorageError
from headrace.storage.hdfs.address import HdfsAddress
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.port import BlockPlace, Replica

LONGEST_ANSWER = 64 * 1024 * 1024
"""An answer beyond this is not read; it would describe a file of about 200,000 blocks [bytes]."""

_Connection = http.client.HTTPConnection


class WebHdfs:
    """The HTTP ports of a cluster's NameNodes; connections are kept open. Thread-safe."""

    def __init__(self, address: HdfsAddress, config: HdfsConfig) -> None:
        self._addresses: Sequence[str] = address.web
        self._user = config.user
        self._timeout_s = config.namenode_timeout_s
        self._lock = threading.Lock()
        self._kept: list[tuple[str, _Connection]] = []

    def locate(self, path: str) -> Sequence[BlockPlace]:
        """Return the blocks of the file at an absolute path, and who holds them.

        Raises:
            NotFoundError: there is no such file.
            StorageError: no NameNode tells; the message says what each answered.
        """
        query = urlencode({"op": "GETFILEBLOCKLOCATIONS", "user.name": self._user})
        answer = self._ask(path, f"/webhdfs/v1{quote(path)}?{query}")
        try:
            blocks = answer["BlockLocations"]["BlockLocation"]
            return [_block_place(block) for block in blocks]
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(
                f"cannot locate {path}: {self._addresses[0]} answered without block locations; "
                "is it the HTTP port of a NameNode of Hadoop 3?"
            ) from error

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for _, connection in kept:
            connection.close()

    def forget(self) -> None:
        """Leave the connections to the parent, in a forked child."""
        self._lock = threading.Lock()
        self._kept = []

    def _ask(self, path: str, target: str) -> Any:
        answers = []
        for address in self._addresses:
            try:
                status, body = self._get(address, target)
            except (OSError, http.client.HTTPException) as error:
                answers.append(f"{address} {error or type(error).__name__}")
                continue
            if status == http.HTTPStatus.OK:
                self._prefer(address)
                return _parsed(body, address)
            error_name, message = _remote_exception(body)
            if error_name not in ("StandbyException", "RetriableException"):
                raise _refusal(path, address, status, error_name, message)
            answers.append(f"{address} is on standby or starting")
        raise StorageError(
            f"cannot locate {path}: {'; '.join(answers)}; is WebHDFS on (dfs.webhdfs.enabled), and "
            "is its address in hdfs-site.xml (dfs.namenode.http-address) right?"
        )

    def _get(self, address: str, target: str) -> tuple[int, bytes]:
        """Ask on a kept connection; one the other side has closed meanwhile is replaced."""
        for connection in self._connections(address):
            try:
                connection.request("GET", target)
                response = connection.getresponse()
                body = response.read(LONGEST_ANSWER)
            except (ConnectionResetError, BrokenPipeError, http.client.BadStatusLine):
                connection.close()
                continue
            except BaseException:
                connection.close()
                raise
            self._keep(address, connection, response)
            return response.status, body
        raise ConnectionError("ended the connection")

    def _connections(self, address: str) -> Sequence[_Connection]:
        with self._lock:
            kept = [pair for pair in self._kept if pair[0] == address][:1]
            for pair in kept:
                self._kept.remove(pair)
        return [*(connection for _, connection in kept), self._new(address)]

    def _new(self, address: str) -> _Connection:
        parts = urlsplit(address)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                parts.netloc, timeout=self._timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(parts.netloc, timeout=self._timeout_s)

    def _keep(
        self, address: str, connection: _Connection, response: http.client.HTTPResponse
    ) -> None:
        if response.will_close or not response.isclosed():
            connection.close()
            return
        with self._lock:
            self._kept.append((address, connection))

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


def _parsed(body: bytes, address: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise ProtocolError(
            f"{address} answered with something else than JSON; is it a NameNode's HTTP port?"
        ) from error


def _remote_exception(body: bytes) -> tuple[str, str]:
    try:
        remote = json.loads(body)["RemoteException"]
        return str(remote["exception"]), str(remote["message"]).split("\n", 1)[0]
    except (ValueError, KeyError, TypeError):
        return "", ""


def _refusal(path: str, address: str, status: int, name: str, message: str) -> HeadraceError:
    if name == "FileNotFoundException":
        return NotFoundError(f"cannot locate {path}: no such file ({message})")
    if status == http.HTTPStatus.UNAUTHORIZED:
        return StorageError(
            f"cannot locate {path}: {address} asks for Kerberos (SPNEGO), which is not spoken "
            "here; give agents the hosts they sit beside, or allow simple authentication there "
            "(hadoop.http.authentication.type)"
        )
    what = f"{name}: {message}" if name else "no reason"
    return StorageError(
        f"cannot locate {path}: {address} answered {status}, {what}; look at its log"
    )
