"""What becomes of reads and writes when parts of a real cluster fail; each test mends it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from headrace.core.errors import CallerError, DeadlineError, StorageError
from headrace.devhdfs.cluster import Cluster, DataNode
from headrace.devhdfs.daemon import Daemon
from headrace.storage.calls import calls_for
from headrace.storage.hdfs import HdfsConfig, HdfsStorage
from headrace.storage.port import ByteRange
from headrace.storage.writing import BrokenFileError
from waiting import eventually

BLOCK = 1 << 20
CONTENT = bytes(range(251)) * (5 * BLOCK // 2 // 251)
"""Two and a half blocks."""

Open = Callable[..., HdfsStorage]


@pytest.fixture
def opened(hdfs: Cluster, hdfs_dir: str) -> Iterator[Open]:
    """Open a directory with the file ``x`` in it, with other limits than the usual ones."""
    site = HdfsConfig.from_environment({"HADOOP_CONF_DIR": str(hdfs.config_dir)})

    with ExitStack() as stores:

        def open_with(**limits: float) -> HdfsStorage:
            config = HdfsConfig(properties=site.properties, directory=site.directory, **limits)  # type: ignore[arg-type]
            return stores.enter_context(closing(HdfsStorage(hdfs_dir, config)))

        open_with().write("x", CONTENT)
        yield open_with


@contextmanager
def frozen(*daemons: Daemon) -> Iterator[None]:
    for daemon in daemons:
        daemon.freeze()
    try:
        yield
    finally:
        for daemon in daemons:
            daemon.thaw()


class Watch:
    """Says how long it was."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._start


def holder(cluster: Cluster, storage: HdfsStorage, path: str = "x") -> DataNode:
    """Return a DataNode that holds the first block of a file."""
    address = storage.locations(path)[0].replicas[0].address
    return next(node for node in cluster.datanodes if node.address == address)


def test_a_dead_datanode_is_not_missed(hdfs: Cluster, opened: Open) -> None:
    storage = opened()
    assert storage.read("x", 0, 10) == CONTENT[:10]
    victim = holder(hdfs, storage)
    victim.kill()
    try:
        for _ in range(4):
            watch = Watch()
            assert storage.read("x") == CONTENT
            assert watch.seconds() < 10
            storage.close()  # the next handle has its replicas in another order
        storage.write("y", CONTENT)
    finally:
        victim.start()
        hdfs.wait_ready()


def test_a_pipeline_that_loses_datanodes_is_mended_or_its_file_begun_anew(
    hdfs: Cluster, opened: Open
) -> None:
    storage, dead = opened(datanode_timeout_s=10.0), []
    try:
        try:
            with storage.create("y") as writer:
                writer.write(CONTENT[:1000])
                writer._flush()
                aside = next(info.path for info in storage.list() if info.path.startswith(".y."))
                dead.append(holder(hdfs, storage, aside))
                dead[-1].kill()
                writer.write(CONTENT[1000:BLOCK])
                writer.commit()
        except BrokenFileError:  # on busy machines hdfs-native may look for DataNodes for ever
            storage.write("y", CONTENT[:BLOCK])
        assert storage.read("y") == CONTENT[:BLOCK]
        dead.append(next(node for node in hdfs.datanodes if node not in dead))
        dead[-1].kill()
        with pytest.raises(BrokenFileError, match="anew"), storage.create("z") as writer:
            for _ in range(50):
                writer.write(bytes(BLOCK))
        with pytest.raises(CallerError, match="create it anew"):
            writer.write(bytes(5 * BLOCK))
        storage.write("z", b"short")
    finally:
        for node in dead:
            node.start()
        hdfs.wait_ready()
    assert [info.path for info in storage.list()] == ["x", "y", "z"]
    assert storage.read("z") == b"short"
    assert storage.replication("z") == 2


def test_a_file_is_written_no_longer_than_its_time(hdfs: Cluster, opened: Open) -> None:
    """Neither a frozen NameNode nor frozen DataNodes keep the writer, nor its abort."""
    storage = opened(namenode_timeout_s=0.5, read_timeout_s=1.0, datanode_timeout_s=60.0)
    for daemons in ([hdfs.namenode], hdfs.datanodes):
        writer = storage.create("y")
        watch = Watch()
        with frozen(*daemons), pytest.raises(DeadlineError, match="frozen"):
            writer.write(b"a few")
            writer.commit()
        with frozen(hdfs.namenode):
            writer.abort()
        assert watch.seconds() < 15
    with frozen(hdfs.namenode), pytest.raises(DeadlineError, match="NameNode"):
        storage.create("y")


def test_a_pipeline_in_which_nothing_moves_is_a_broken_one(opened: Open) -> None:
    """hdfs-native may look for other DataNodes for as long as it likes."""
    storage, gone = opened(datanode_timeout_s=0.25), threading.Event()

    class Still:
        """A stream whose bytes never arrive."""

        def write(self, data: bytes) -> None:
            gone.wait(60)

        def close(self) -> None:
            return

    writer = storage.create("y")
    writer._raw = Still()  # type: ignore[assignment]
    writer.write(b"a few")
    with pytest.raises(BrokenFileError, match="nothing moved for 1"):
        writer.commit()
    gone.set()
    assert storage.write("y", b"a few").size == 5


@pytest.mark.parametrize("is_done", [True, False])
def test_a_rename_whose_answer_is_lost_counts_if_it_was_done(opened: Open, is_done: bool) -> None:
    import hdfs_native

    storage = opened()
    lost = []

    class Lossy(hdfs_native.Client):
        """Gives the answer to the first rename to nobody, and perhaps not even asks."""

        def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
            lost.append(src)
            if is_done:
                super().rename(src, dst, overwrite)
            raise OSError("Connection reset by peer")

    with storage.create("x") as writer:
        writer.write(b"new")
        storage._namenodes._client.__class__ = Lossy
        if is_done:
            assert writer.commit().size == 3
        else:
            with pytest.raises(StorageError, match="ended the connection"):
                writer.commit()
    assert len(lost) == 1
    assert storage.read("x") == (b"new" if is_done else CONTENT)


def test_a_frozen_datanode_costs_no_more_than_its_timeout(hdfs: Cluster, opened: Open) -> None:
    storage = opened(datanode_timeout_s=1.0, hedge_s=0.3)
    with frozen(holder(hdfs, storage)):
        for _ in range(4):
            watch = Watch()
            ranges = [ByteRange(10, 20), ByteRange(BLOCK, 9)]
            assert storage.read_ranges("x", ranges) == [CONTENT[10:30], CONTENT[BLOCK : BLOCK + 9]]
            assert watch.seconds() < 10
            storage.close()


def test_threads_that_read_small_ranges_keep_as_many_in_flight_as_the_store_allows(
    hdfs: Cluster, opened: Open
) -> None:
    storage = opened(reads_in_flight=40, datanode_timeout_s=60.0, hedge_s=60.0)
    names = [f"small/{n}" for n in range(8)]
    for name in names:
        storage.write(name, CONTENT[:BLOCK])
    apart = [ByteRange(at * 200_000, 100) for at in range(5)]
    wanted = [CONTENT[r.offset :][: r.length] for r in apart]
    data = calls_for("data")
    with ThreadPoolExecutor(len(names)) as threads:
        with frozen(*hdfs.datanodes):
            reads = [threads.submit(storage.read_ranges, name, apart) for name in names]
            eventually(lambda: data._running >= 40)  # those earlier tests gave up may still hang
        assert all(read.result(20) == wanted for read in reads)


def test_when_all_datanodes_are_frozen_the_wait_ends(hdfs: Cluster, opened: Open) -> None:
    storage = opened(datanode_timeout_s=60.0, hedge_s=0.2, read_timeout_s=1.5)
    with frozen(*hdfs.datanodes):
        watch = Watch()
        with pytest.raises(DeadlineError, match=r"/x: 1 of 1 parts") as caught:
            storage.read("x", 0, 1000)
        assert watch.seconds() < 10
        replicas = storage.locations("x")[0].replicas
        assert all(replica.address in str(caught.value) for replica in replicas)
    assert opened().read("x") == CONTENT


def test_an_open_file_is_read_while_no_namenode_answers(hdfs: Cluster, opened: Open) -> None:
    storage = opened(namenode_timeout_s=1.0, outage_s=0.5, revalidate_s=0.3)
    storage.write("y", CONTENT)
    info = storage.stat("x")
    assert storage.read("x") == CONTENT
    assert storage.stat("x") == info
    with frozen(hdfs.namenode):
        watch = Watch()
        while watch.seconds() < 2:
            assert storage.read("x", 5, 5) == CONTENT[5:10]
            assert storage.stat("x") == info
        watch = Watch()
        with pytest.raises(DeadlineError, match="NameNode"):
            storage.read("y")
        assert watch.seconds() < 10
    assert opened().read("y") == CONTENT


def test_files_are_opened_as_soon_as_a_restarted_namenode_is_back(
    hdfs: Cluster, opened: Open
) -> None:
    storage = opened(outage_s=90.0)
    hdfs.namenode.restart()
    assert storage.read("x") == CONTENT
    hdfs.wait_ready()


def test_a_damaged_block_is_read_from_another_replica(hdfs: Cluster, opened: Open) -> None:
    storage, content = opened(), os.urandom(BLOCK)
    storage.write("y", content)
    first, _ = blocks_with(hdfs, content)
    spoil(first)
    for _ in range(4):
        assert storage.read("y") == content
        storage.close()


def test_when_all_replicas_are_damaged_the_error_names_the_datanodes(
    hdfs: Cluster, opened: Open
) -> None:
    storage, content = opened(), os.urandom(BLOCK)
    storage.write("y", content)
    addresses = [replica.address for replica in storage.locations("y")[0].replicas]
    for block in blocks_with(hdfs, content):
        spoil(block)
    watch = Watch()
    with pytest.raises(StorageError) as caught:
        storage.read("y")
    assert watch.seconds() < 10
    assert all(address in str(caught.value) for address in addresses)


def blocks_with(cluster: Cluster, content: bytes) -> list[Path]:
    files = (path for node in cluster.datanodes for path in node.block_files())
    return [path for path in files if path.read_bytes() == content]


def spoil(path: Path) -> None:
    with path.open("r+b") as block:
        block.seek(1000)
        block.write(b"garbage!")


def test_a_nameservice_survives_the_loss_of_its_active_namenode(
    hdfs_cluster: Callable[..., Cluster],
) -> None:
    cluster = hdfs_cluster(datanodes=1, namenodes=2, replication=1)
    config = HdfsConfig.from_environment({"HADOOP_CONF_DIR": str(cluster.config_dir)})
    with closing(HdfsStorage(cluster.url, config)) as storage:
        lose_the_active_namenode(cluster, storage)
    with closing(HdfsStorage(cluster.url, config)) as storage:
        assert storage.read("y") == CONTENT


def lose_the_active_namenode(cluster: Cluster, storage: HdfsStorage) -> None:
    storage.write("x", CONTENT)
    assert storage.read("x") == CONTENT
    places = storage.locations("x")
    cluster.namenode.kill()
    failover = threading.Thread(target=cluster.failover)
    failover.start()
    assert storage.read("x") == CONTENT
    storage.close()
    assert storage.read("x") == CONTENT
    failover.join(60)
    assert storage.locations("x") == places
    storage.write("y", CONTENT)
