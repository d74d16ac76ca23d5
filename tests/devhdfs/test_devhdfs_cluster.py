from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_programs import java

from headrace.core.errors import CallerError, DeadlineError, RemoteError
from headrace.devhdfs.cluster import Cluster
from headrace.devhdfs.processes import marked
from waiting import eventually

OWNER = """
import sys, time
from headrace.devhdfs.cluster import Cluster
cluster = Cluster(datanodes=1)
cluster.start()
print(cluster.directory, flush=True)
time.sleep(100)
"""


def web_hdfs(cluster: Cluster, method: str, call: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(cluster.namenode.address.http, timeout=30)
    try:
        connection.request(method, f"/webhdfs/v1{call}")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_cluster_is_ready_with_every_datanode(hdfs: Cluster) -> None:
    state = hdfs.namenode.state()
    assert state is not None
    assert (state.role, state.live_datanodes, state.in_safe_mode) == ("active", 3, False)


def test_a_fresh_directory_is_empty(hdfs: Cluster, hdfs_dir: str) -> None:
    path = hdfs_dir.removeprefix(hdfs.url)
    status, listing = web_hdfs(hdfs, "GET", f"{path}?op=LISTSTATUS")
    assert (status, b'"FileStatus":[\n\n]' in listing) == (200, True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_standby_takes_over_and_a_dead_datanode_is_noticed(
    hdfs_cluster: Callable[..., Cluster],
) -> None:
    cluster = hdfs_cluster(datanodes=2, namenodes=2, replication=1)
    web_hdfs(cluster, "PUT", "/kept?op=MKDIRS")
    first = cluster.namenode
    cluster.datanodes[0].kill()
    cluster.failover()
    assert cluster.namenode is not first
    assert web_hdfs(cluster, "GET", "/kept?op=GETFILESTATUS")[0] == 200
    cluster.namenode.kill()
    cluster.failover()
    assert cluster.namenode is first
    eventually(lambda: live(cluster) == 1, within_s=60)
    cluster.datanodes[0].start()
    cluster.datanodes[1].kill()
    cluster.datanodes[1].start()  # sooner than it is missed
    cluster.wait_ready()
    assert live(cluster) == 2
    assert [datanode.registrations() for datanode in cluster.datanodes] == [1, 1]


def live(cluster: Cluster) -> int:
    state = cluster.namenode.state()
    return state.live_datanodes if state else -1


def test_killing_the_owner_leaves_no_process_and_no_file(hadoop: None) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().decode().strip())
        both = {"namenode-1", "datanode-1"}
        eventually(lambda: {one.name for one in marked(directory)} == both)
        owner.send_signal(signal.SIGKILL)
    eventually(lambda: not marked(directory))
    eventually(lambda: not directory.exists())


def faked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, then: str) -> Path:
    """Let clusters run a script instead of Java, and return a directory for one."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java(tmp_path, then=then)
    (tmp_path / "hadoop.jar").touch()
    return tmp_path / "cluster"


def fake_cluster(directory: Path) -> Cluster:
    return Cluster(datanodes=1, directory=directory, jars=directory.parent)


def test_a_daemon_that_ends_by_itself_is_named_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clash = "java.net.BindException: Port in use"
    directory = faked(
        monkeypatch,
        tmp_path,
        then=f'case "$*" in *-format*) exit 0;; *DataNode*) sleep 60;; esac; echo {clash}; exit 1',
    )
    with (
        pytest.raises(RemoteError, match=rf"namenode-1 ended by itself with code 1: {clash}"),
        fake_cluster(directory),
    ):
        pass
    assert marked(directory) == []


def test_a_file_system_that_cannot_be_made_is_an_error_and_nothing_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = faked(
        monkeypatch, tmp_path, then='case "$*" in *DataNode*) sleep 60;; esac; exit 1'
    )
    with pytest.raises(RemoteError, match="cannot be formatted"), fake_cluster(directory):
        pass
    assert marked(directory) == []


def test_waiting_ends_with_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    directory = faked(monkeypatch, tmp_path, then='case "$*" in *-format*) exit 0;; esac; sleep 60')
    cluster = fake_cluster(directory)
    try:
        cluster.start()
        with pytest.raises(DeadlineError, match=r"after 0\.3 s: a NameNode does not answer"):
            cluster.wait_ready(0.3)
        with pytest.raises(CallerError, match=r"runs in .* already"):
            fake_cluster(directory).start()
    finally:
        cluster.close()
    assert marked(directory) == []


def test_a_lone_namenode_cannot_fail_over(hdfs: Cluster) -> None:
    with pytest.raises(CallerError, match="use namenodes=2"):
        hdfs.failover()


def test_closing_twice_is_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = fake_cluster(faked(monkeypatch, tmp_path, then="exit 0"))
    cluster.close()
    cluster.close()


def test_the_daemons_of_a_cluster_run_apart_from_this_session(hdfs: Cluster) -> None:
    """Or Ctrl-C would reach them before their owner could stop them in order."""
    sessions = {os.getsid(one.pid) for one in (*hdfs.namenodes, *hdfs.datanodes)}
    assert os.getsid(0) not in sessions
