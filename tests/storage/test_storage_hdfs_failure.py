"""The exceptions here are hdfs-native 0.14's, as real clusters made it raise them."""

from __future__ import annotations

import pytest

from headrace.core.errors import NotFoundError, StorageError
from headrace.storage.hdfs.failure import Fault, judge, judge_read

NODES = (
    'DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: DatanodeIdProto { '
    'ip_addr: \\"10.0.0.1\\", host_name: \\"a\\", xfer_port: 9866, info_port: 9864 } }, '
    'DatanodeInfoProto { id: DatanodeIdProto { ip_addr: \\"10.0.0.2\\", host_name: \\"b\\", '
    'xfer_port: 9867, info_port: 9864 } }]")'
)


def rpc(kind: str, text: str) -> RuntimeError:
    return RuntimeError(f'RPCError("org.apache.hadoop.{kind}", "{text}\\n\\tat a.b(C.java:1)")')


@pytest.mark.parametrize(
    ("error", "fault", "says"),
    [
        (FileNotFoundError("/x\n\tat a.b"), Fault.MISSING, "no such file"),
        (ConnectionRefusedError("Connection refused (os error 111)"), Fault.NAMENODE, "port"),
        (OSError("RPC listener disconnected"), Fault.NAMENODE, "ended the connection"),
        (rpc("ipc.StandbyException", "Operation category READ"), Fault.NAMENODE, "failover"),
        (rpc("ipc.RetriableException", "starting"), Fault.NAMENODE, "starting"),
        (
            rpc("hdfs.server.namenode.SafeModeException", "Zero blocklocations for /x"),
            Fault.NO_REPLICA,
            "safe mode",
        ),
        (
            rpc("hdfs.server.namenode.SafeModeException", "Cannot create file /x"),
            Fault.REFUSED,
            "safe mode; wait",
        ),
        (
            rpc("security.AccessControlException", "Permission denied: user=ann"),
            Fault.CLOSED,
            "user=ann; let this user in",
        ),
        (
            RuntimeError(
                'RPCError("java.io.IOException", "File /x could only be written to 0 of the 1 '
                'minReplication nodes")'
            ),
            Fault.REFUSED,
            "free space",
        ),
        (
            rpc("hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota of /x"),
            Fault.REFUSED,
            "quota",
        ),
        (RuntimeError(NODES), Fault.DATANODES, "10.0.0.1:9866, 10.0.0.2:9867"),
        (RuntimeError('DataTransferError("All DataNodes failed: []")'), Fault.NO_REPLICA, "fsck"),
        (RuntimeError("it panicked: oh"), Fault.REFUSED, "panicked"),
    ],
)
def test_what_went_wrong_is_told_with_what_to_do(error: Exception, fault: Fault, says: str) -> None:
    failure = judge(error)
    assert failure.fault is fault
    assert says in failure.reason
    assert ".java" not in failure.reason


def test_only_what_is_missing_is_not_found() -> None:
    assert isinstance(judge(FileNotFoundError("/x")).error("read /x"), NotFoundError)
    refused = judge(rpc("security.AccessControlException", "no")).error("read /x")
    assert isinstance(refused, StorageError)
    assert str(refused).startswith("cannot read /x: no; ")


def test_a_connection_lost_while_reading_is_a_datanodes() -> None:
    lost = judge_read(OSError("Connection reset by peer (os error 104)"))
    assert lost.fault is Fault.DATANODES
    assert "reset by peer" in lost.reason
    assert judge_read(RuntimeError(NODES)) == judge(RuntimeError(NODES))
