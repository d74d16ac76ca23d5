from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from contract.storage_contract import CONTENT, StorageContract
from headrace.core.errors import (
    CallerError,
    ConfigError,
    HeadraceError,
    NotFoundError,
    StorageError,
)
from headrace.devhdfs.cluster import Cluster
from headrace.storage.hdfs import HdfsConfig, HdfsStorage, joining
from headrace.storage.hdfs.webhdfs import WebHdfs
from headrace.storage.hdfs.writing import sync_and_close
from headrace.storage.opening import open_storage
from headrace.storage.port import ByteRange
from headrace.storage.rangefile import RangeFile

REVALIDATE_S = 0.01
"""How long a reader believes what it knows of a file [s]."""


@pytest.fixture
def config(hdfs: Cluster) -> HdfsConfig:
    return HdfsConfig.from_environment({"HADOOP_CONF_DIR": str(hdfs.config_dir)})


@pytest.fixture
def storage(hdfs_dir: str, config: HdfsConfig) -> Iterator[HdfsStorage]:
    with closing(HdfsStorage(hdfs_dir, config)) as opened:
        yield opened


class TestHdfsStorage(StorageContract):
    @pytest.fixture
    def storage(self, hdfs_dir: str, config: HdfsConfig) -> Iterator[HdfsStorage]:
        with closing(HdfsStorage(hdfs_dir, config)) as opened:
            yield opened

    def make(self, place: Path) -> HdfsStorage:
        raise AssertionError("the fixture makes it, in the session's cluster")


def test_a_range_over_blocks_comes_in_parts_that_fit_together(
    storage: HdfsStorage, hdfs_dir: str
) -> None:
    data = os.urandom(5 << 20)
    storage.write("x", data)
    parted = HdfsStorage(hdfs_dir, HdfsConfig(part_bytes=300_000))
    assert parted.read("x") == data
    ranges = [ByteRange(1 << 20, 2 << 20), ByteRange(17, 1), ByteRange((1 << 20) + 5, 9)]
    assert parted.read_ranges("x", ranges) == [data[r.offset :][: r.length] for r in ranges]
    assert RangeFile(parted, "x", 1000, 4 << 20).read() == data[1000:][: 4 << 20]
    assert len(storage.locations("x")) == 5


def test_a_file_replaced_by_another_client_is_noticed(storage: HdfsStorage, hdfs_dir: str) -> None:
    reader = HdfsStorage(hdfs_dir, HdfsConfig(revalidate_s=REVALIDATE_S))
    storage.write("x", b"old")
    assert reader.read("x") == b"old"
    assert reader.stat("x") == storage.stat("x")
    info = storage.write("x", b"newer")
    time.sleep(2 * REVALIDATE_S)
    assert reader.stat("x") == info
    assert reader.read("x") == b"newer"


def test_what_a_listing_shows_to_be_another_version_is_read_anew(
    storage: HdfsStorage, hdfs_dir: str
) -> None:
    with closing(HdfsStorage(hdfs_dir, HdfsConfig(revalidate_s=600.0))) as reader:
        storage.write("latest", b"step-100")
        assert reader.read("latest") == b"step-100"
        storage.write("latest", b"step-200")
        assert [info.size for info in reader.list()] == [8]
        assert reader.read("latest") == b"step-200"


def test_an_open_file_that_another_client_deletes_is_gone_once_it_is_looked_for(
    storage: HdfsStorage, hdfs_dir: str
) -> None:
    reader = HdfsStorage(hdfs_dir, HdfsConfig(revalidate_s=REVALIDATE_S))
    storage.write("x", CONTENT)
    assert reader.read("x", 0, 3) == CONTENT[:3]
    storage.delete("x")
    time.sleep(2 * REVALIDATE_S)
    with pytest.raises(NotFoundError):
        reader.stat("x")
    with pytest.raises(NotFoundError):
        reader.read("x", 0, 3)


def test_a_file_that_another_client_appended_to_is_read_to_its_new_end(
    storage: HdfsStorage, hdfs: Cluster, hdfs_dir: str
) -> None:
    import hdfs_native

    storage.write("x", b"one")
    assert storage.read("x") == b"one"
    path = f"{hdfs_dir.removeprefix(hdfs.url)}/x"
    with hdfs_native.Client(hdfs.url).append(path) as writer:
        writer.write(b"two")
    assert storage.read("x", 0, 6) == b"onetwo"


def test_a_file_that_is_being_written_says_so(
    storage: HdfsStorage, hdfs: Cluster, hdfs_dir: str
) -> None:
    import hdfs_native

    path = f"{hdfs_dir.removeprefix(hdfs.url)}/x"
    with hdfs_native.Client(hdfs.url).create(path) as writer:
        writer.write(CONTENT)
        writer.hsync()
        with pytest.raises(StorageError, match="being written"):
            storage.read("x", 0, 10)
    assert storage.read("x", 0, 10) == CONTENT[:10]


def test_a_mistyped_path_is_answered_with_the_nearest(
    storage: HdfsStorage, hdfs_dir: str, config: HdfsConfig
) -> None:
    storage.write("train/0001.tar", b"")
    with pytest.raises(NotFoundError, match=r"did you mean .*/train/0001\.tar"):
        storage.read("train/0002.tar")
    with pytest.raises(NotFoundError, match=r"did you mean .*/train\?"):
        HdfsStorage(f"{hdfs_dir}/trian/deep", config)
    with pytest.raises(NotFoundError, match="name the directory"):
        HdfsStorage(f"{hdfs_dir}/train/0001.tar", config)
    with pytest.raises(NotFoundError, match=r"name a file$"):
        storage.stat("train")


def test_a_url_without_a_namenode_is_that_of_the_configuration(
    hdfs: Cluster, hdfs_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.config_dir))
    storage = open_storage(f"hdfs://{hdfs_dir.removeprefix(hdfs.url)}")
    assert storage.url == hdfs_dir
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(ConfigError, match="HADOOP_CONF_DIR"):
        open_storage("hdfs:///")


@pytest.mark.parametrize("port", ["namenode's HTTP", "nobody's"])
def test_a_wrong_port_is_an_error_at_once(hdfs: Cluster, port: str) -> None:
    number = hdfs.http.rpartition(":")[2] if port == "namenode's HTTP" else "1"
    with pytest.raises(StorageError, match="port"):
        HdfsStorage(f"hdfs://127.0.0.1:{number}/", HdfsConfig())


def test_without_hdfs_native_the_extra_is_named(
    hdfs_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[hdfs\]'"):
        HdfsStorage(hdfs_dir, HdfsConfig())


def test_a_write_that_the_namenode_refuses_leaves_nothing_behind(
    storage: HdfsStorage, hdfs: Cluster, hdfs_dir: str
) -> None:
    storage.write("folder/in/the/way", b"")
    with pytest.raises(HeadraceError):
        storage.write("folder/in", b"new")
    storage.write("file", b"old")
    with pytest.raises(StorageError, match="is not a directory"):
        storage.write("file/below", b"new")
    assert [info.path for info in storage.list()] == ["file", "folder/in/the/way"]
    assert storage.read("file") == b"old"


def test_a_join_that_breaks_off_is_repeated_with_what_is_left(
    storage: HdfsStorage, hdfs_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"staging/{n}" for n in range(6)]
    for name in names:
        storage.write(name, name.encode() * 70_000)
    monkeypatch.setattr(joining, "LONGEST_NAMES", 2 * len(f"{hdfs_dir}/{names[0]}"))
    concat = WebHdfs.concat

    def fail_late(web: WebHdfs, path: str, parts: Sequence[str]) -> None:
        if any(part.endswith("/5") for part in parts):
            raise StorageError("the NameNode is gone")
        concat(web, path, parts)

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="gone"):
        patch.setattr(WebHdfs, "concat", fail_late)
        storage.assemble("whole", names)
    left = [info.path for info in storage.list("staging")]
    assert 1 < len(left) < len(names)
    storage.assemble("whole", left)
    assert storage.read("whole") == b"".join(name.encode() * 70_000 for name in names)
    assert [info.path for info in storage.list()] == ["whole"]


def test_a_write_is_seen_at_the_datanodes_that_take_it(storage: HdfsStorage, hdfs: Cluster) -> None:
    with storage.create("x") as writer:
        writer.write(bytes(5 << 20))
        state = storage.state()
    assert sum(node.transfers for node in state.nodes) >= 2
    assert {node.address for node in state.nodes} == {node.address for node in hdfs.datanodes}
    assert state.blocks_per_s == 2 * len(hdfs.datanodes), "2 a node in each interval, of 1 s here"
    assert state.streams_per_node == 2


def test_names_that_cannot_be_joined_are_refused(storage: HdfsStorage) -> None:
    for name in ("a,b", "c"):
        storage.write(name, b"1")
    with pytest.raises(CallerError, match="comma"):
        storage.assemble("whole", ["c", "a,b"])


def test_a_file_that_cannot_be_synced_is_closed_all_the_same() -> None:
    """Erasure-coded ones cannot; a cluster of the tests has too few DataNodes for these."""

    class ErasureCoded:
        closed = False

        def hsync(self) -> None:
            raise RuntimeError('UnsupportedFeature("hsync … for erasure-coded files")')

        def close(self) -> None:
            self.closed = True

    raw = ErasureCoded()
    sync_and_close(raw)  # type: ignore[arg-type]
    assert raw.closed


def test_a_forked_child_reads_with_connections_of_its_own(storage: HdfsStorage) -> None:
    storage.write("x", CONTENT)
    assert storage.read("x") == CONTENT
    in_child(lambda: storage.read("x") == CONTENT and storage.stat("x").size == len(CONTENT))
    assert storage.read("x") == CONTENT


def in_child(holds: Callable[[], bool]) -> None:
    with warnings.catch_warnings():  # later Pythons warn of forks of processes with threads
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if holds() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_writing_costs_little_of_a_core(storage: HdfsStorage) -> None:
    data = memoryview(bytes(4 << 20))
    begun = time.process_time()
    with storage.create("x") as writer:
        for _ in range(8):
            writer.write(data)
        writer.commit()
    assert 8 * len(data) / (time.process_time() - begun) > 200e6
