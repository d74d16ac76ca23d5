"""What hdfs-native's exceptions mean: whose fault, whether to try again, what to do. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from headrace.core.errors import AccessError, HeadraceError, NotFoundError, StorageError


class Fault(Enum):
    """Who failed, and so what a retry is worth."""

    MISSING = "there is no such file"
    NAMENODE = "no NameNode answers, or none is ready: it may be back soon"
    NO_REPLICA = "no DataNode is known to hold a block: some may not have reported yet"
    DATANODES = "every replica was tried: another attempt may find another"
    CLOSED = "this user may not"
    REFUSED = "the cluster understood and refuses"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed call of hdfs-native."""

    fault: Fault
    reason: str
    """What happened and what to do, for the end of a message."""

    def error(self, tried: str) -> HeadraceError:
        """Return the error for a call that was described as ``read x``, ``list y`` …."""
        kinds = {Fault.MISSING: NotFoundError, Fault.CLOSED: AccessError}
        return kinds.get(self.fault, StorageError)(f"cannot {tried}: {self.reason}")


_RPC_ERROR = re.compile(r'^(?:Fatal)?RPCError\("(?P<kind>[\w.$]+)", "(?P<text>.*)"\)$', re.DOTALL)
_DATANODE = re.compile(r'ip_addr: \\?"([^"\\]+)\\?".*?xfer_port: (\d+)')

_NOT_READY = {
    "StandbyException": "no NameNode of the nameservice is active; wait for the failover",
    "RetriableException": "the NameNode is starting; try again soon",
    "NotReplicatedYetException": "a DataNode has not reported the block before; try again soon",
    "ObserverRetryOnActiveException": "the observers lag behind; try again soon",
}

_REFUSALS = {
    "DSQuotaExceededException": "raise the directory's space quota, or free some of it",
    "NSQuotaExceededException": "raise the directory's name quota, or remove some files",
    "ParentNotDirectoryException": "a file is in the way; choose another path",
    "PathIsNotEmptyDirectoryException": "it is a directory; name a file",
    "SafeModeException": "the NameNode is in safe mode; wait, or `hdfs dfsadmin -safemode get`",
}

_CLOSED = ("AccessControlException", "AuthorizationException")

_CONNECTION_LOST = ("disconnected", "aborted", "reset", "Broken pipe", "early eof")


def judge(error: BaseException) -> Failure:
    """Return what an exception out of hdfs-native means."""
    text = _first_line(str(error))
    if isinstance(error, FileNotFoundError):
        return Failure(Fault.MISSING, f"no such file ({text})")
    if isinstance(error, FileExistsError):
        return Failure(Fault.REFUSED, f"{text}; another writer has it: choose another name")
    remote = _RPC_ERROR.match(str(error))
    if remote:
        return _judge_remote(remote["kind"].rpartition(".")[2], _first_line(remote["text"]))
    if "DataTransferError" in text or "BlocksNotFound" in text or "ChecksumError" in text:
        return _judge_datanodes(str(error))
    if isinstance(error, OSError):
        return Failure(Fault.NAMENODE, _unreachable(text))
    return Failure(Fault.REFUSED, f"hdfs-native says {type(error).__name__}: {text}")


def judge_read(error: BaseException) -> Failure:
    """Return what an exception out of reading an open file means: no NameNode takes part."""
    failure = judge(error)
    if failure.fault is not Fault.NAMENODE:
        return failure
    text = _first_line(str(error))
    return Failure(
        Fault.DATANODES, f"a DataNode broke off ({text}); look at its log and at the network"
    )


def _judge_remote(kind: str, text: str) -> Failure:
    if kind in _NOT_READY:
        return Failure(Fault.NAMENODE, _NOT_READY[kind])
    if kind == "SafeModeException" and "Zero blocklocations" in text:
        return Failure(Fault.NO_REPLICA, "the NameNode is in safe mode and knows no replica yet")
    if "could only be written to 0 of" in text:
        return Failure(
            Fault.REFUSED, f"no DataNode has room for a block ({text}); free space or add DataNodes"
        )
    if kind in _CLOSED:
        advice = "let this user in, or set HADOOP_USER_NAME to one who may"
        return Failure(Fault.CLOSED, f"{text or kind}; {advice}")
    advice = _REFUSALS.get(kind, "look at the NameNode's log")
    return Failure(Fault.REFUSED, f"{text or kind}; {advice}")


def _judge_datanodes(text: str) -> Failure:
    nodes = [f"{host}:{port}" for host, port in _DATANODE.findall(text)]
    if not nodes and "All DataNodes failed: []" in text:
        return Failure(
            Fault.NO_REPLICA, "no live DataNode holds one of its blocks; `hdfs fsck` tells which"
        )
    where = f"every replica, on {', '.join(nodes)}" if nodes else "a DataNode"
    return Failure(
        Fault.DATANODES,
        f"{where}, failed or holds a damaged block ({_first_line(text)[:60].rstrip('[{: ')}); "
        "look at the DataNodes' logs, or run `hdfs fsck`",
    )


def _unreachable(text: str) -> str:
    if "refused" in text:
        return "the connection was refused; is the NameNode up, and is the port that of its RPC?"
    if any(word in text for word in _CONNECTION_LOST):
        return f"the other side ended the connection ({text}); is the port that of NameNode RPC?"
    return f"{text or 'no answer'}; check the name, the network and the NameNode"


def _first_line(text: str) -> str:
    return re.split(r"\\n|\n", text, maxsplit=1)[0].strip()
