"""Asks the NameNodes through hdfs-native: bounded, repeated through a restart, translated."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from headrace.core.errors import ConfigError, DeadlineError, HeadraceError, StorageError
from headrace.storage.calls import calls_for
from headrace.storage.hdfs.address import HdfsAddress
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.failure import Fault, judge

if TYPE_CHECKING:
    import hdfs_native

T = TypeVar("T")

NATIVE_ERRORS = (OSError, RuntimeError, ValueError)
"""What hdfs-native raises."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 3.0


class NameNodeAwayError(StorageError):
    """No NameNode answers, or the one that does is not ready; it may be back soon."""


class NameNodes:
    """The NameNodes of one cluster. Thread-safe; usable after a fork, too."""

    def __init__(self, address: HdfsAddress, config: HdfsConfig) -> None:
        self._address = address
        self._config = config
        self._client = _connect(address, config)
        self._answered = False
        _live.add(self)

    def ask(self, tried: str, call: Callable[[hdfs_native.Client], T]) -> T:
        """Return the answer to a question, asked again for a while if nobody answers.

        A NameNode that never answered is not waited for: its address may be wrong.

        Raises:
            NotFoundError: there is no such file.
            StorageError: refused, or nobody answered in ``outage_s``.
            DeadlineError: nobody answered, and the last attempt took too long.
        """
        give_up_at = time.monotonic() + self._config.outage_s
        for pause_s in pauses():
            try:
                return self.tell(tried, call)
            except (NameNodeAwayError, DeadlineError):
                if not self._answered or time.monotonic() + pause_s > give_up_at:
                    raise
            time.sleep(pause_s)
        raise AssertionError("pauses do not end")

    def tell(
        self,
        tried: str,
        call: Callable[[hdfs_native.Client], T],
        *,
        timeout_s: float | None = None,
    ) -> T:
        """Have something done, once: what changes files is not repeated by itself.

        Raises: as ``ask``.
        """
        timeout_s = timeout_s or self._config.namenode_timeout_s
        try:
            answer = calls_for("names").run(lambda: call(self._client), timeout_s)
        except TimeoutError as error:
            raise DeadlineError(
                f"cannot {tried}: no answer from {self._who()} in {timeout_s:g} s; is it frozen, "
                "overloaded or cut off? Look at its log and at the network"
            ) from error
        except NATIVE_ERRORS as error:
            raise self._translated(error, tried) from error
        self._answered = True
        return answer

    def _translated(self, error: BaseException, tried: str) -> HeadraceError:
        failure = judge(error)
        if failure.fault in (Fault.NAMENODE, Fault.NO_REPLICA):
            return NameNodeAwayError(f"cannot {tried} at {self._who()}: {failure.reason}")
        self._answered = True
        return failure.error(tried)

    def _who(self) -> str:
        return f"NameNode {' or '.join(self._address.namenodes)}"

    def renew(self) -> None:
        """Connect anew in a forked child: the library's threads stayed in the parent."""
        _left_behind.append(self._client)
        self._client = _connect(self._address, self._config)


def pauses() -> Iterator[float]:
    """Yield the pauses between attempts, growing [s]; they do not end."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)


def _connect(address: HdfsAddress, config: HdfsConfig) -> hdfs_native.Client:
    try:
        import hdfs_native
    except ImportError as error:
        raise ConfigError(
            f"cannot open {address.url}: HDFS needs the package hdfs-native; "
            "`pip install 'headrace[hdfs]'`"
        ) from error
    try:
        return hdfs_native.Client(
            f"hdfs://{address.authority}",
            {**config.properties, **_limits(address, config)},
            config.directory,
            kerberos_principal=config.kerberos_principal,
            kerberos_keytab=config.kerberos_keytab,
            kerberos_cache=config.kerberos_cache,
        )
    except NATIVE_ERRORS as error:
        where = config.directory or "no configuration (HADOOP_CONF_DIR is not set)"
        raise ConfigError(
            f"cannot open {address.url} with {where}: hdfs-native says {error}; check both"
        ) from error


def _limits(address: HdfsAddress, config: HdfsConfig) -> dict[str, str]:
    """Return bounds for hdfs-native, whose own are minutes: a retry here knows what it is for."""
    return {
        "dfs.client.socket-timeout": str(round(config.datanode_timeout_s * 1000)),
        "dfs.client.failover.max.attempts": str(2 * len(address.namenodes)),
        "dfs.client.failover.sleep.base.millis": "100",
        "dfs.client.failover.sleep.max.millis": "500",
    }


_live: weakref.WeakSet[NameNodes] = weakref.WeakSet()

_left_behind: list[hdfs_native.Client] = []
"""Clients of a parent process: dropping one would wait for threads that are not here."""


def _renew_all() -> None:
    for namenodes in list(_live):
        namenodes.renew()


os.register_at_fork(after_in_child=_renew_all)
