from __future__ import annotations

import http.client

from headrace.devhdfs.cluster import Cluster


def test_a_cluster_is_ready_with_every_datanode(hdfs: Cluster) -> None:
    state = hdfs.namenode.state()
    assert state is not None
    assert (state.role, state.live_datanodes, state.in_safe_mode) == ("active", 3, False)


def test_a_fresh_directory_is_empty(hdfs: Cluster, hdfs_dir: str) -> None:
    connection = http.client.HTTPConnection(hdfs.http, timeout=30)
    path = hdfs_dir.removeprefix(hdfs.url)
    connection.request("GET", f"/webhdfs/v1{path}?op=LISTSTATUS")
    assert b'"FileStatus":[\n\n]' in connection.getresponse().read()
    connection.close()
