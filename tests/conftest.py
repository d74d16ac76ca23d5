"""Puts this folder on the path (contract suites are imported as ``contract.…``); real stores.

Tests take ``hdfs_dir`` for a place of their own in the session's cluster, ``hdfs`` for the
cluster itself, which they leave whole, and ``hdfs_cluster`` for one that they may break. They take
``s3`` for the session's S3 server, whose client the process then is, and ``s3_dir`` for a place.
"""

from __future__ import annotations

import http.client
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from headrace.core.errors import ConfigError, RemoteError
from headrace.devhdfs.artefacts import find_classpath, find_java
from headrace.devhdfs.cluster import Cluster
from stores.seaweed import BUCKET, Seaweed, as_client

pytest.register_assert_rewrite("contract")

settings.register_profile(
    "patient",
    parent=settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")  # an example that a busy machine holds up is no failure

os.environ["HEADRACE_TRACE"] = "off"  # nothing is recorded in the user's cache, by children neither

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def hadoop() -> None:
    """Java and Hadoop's jars are here; where they are not, the test is skipped, but not in CI."""
    try:
        find_java()
        find_classpath()
    except (ConfigError, RemoteError) as error:
        if "CI" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def hdfs(hadoop: None) -> Iterator[Cluster]:
    """One real cluster for the whole session: 3 DataNodes, 1 MiB blocks, 2 copies of each."""
    with Cluster(datanodes=3, block_size=1 << 20, replication=2) as cluster:
        yield cluster


@pytest.fixture
def hdfs_dir(hdfs: Cluster) -> Iterator[str]:
    """URL of an empty directory in the session's cluster, removed with all in it."""
    path = f"/test-{next(_NUMBERS)}"
    _web_hdfs(hdfs, "PUT", f"{path}?op=MKDIRS")
    yield f"{hdfs.url}{path}"
    _web_hdfs(hdfs, "DELETE", f"{path}?op=DELETE&recursive=true")


@pytest.fixture
def hdfs_cluster(hadoop: None) -> Iterator[Callable[..., Cluster]]:
    """Start further clusters, which the test may break: ``hdfs_cluster(datanodes=2)``."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(Cluster(**settings))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Seaweed]:
    """One real S3 server for the whole session, with the bucket ``BUCKET``."""
    with Seaweed() as server:
        yield server


@pytest.fixture
def s3(s3_server: Seaweed) -> Iterator[Seaweed]:
    """The session's server, as variables of the environment name it."""
    with as_client(s3_server.environment):
        yield s3_server


@pytest.fixture
def s3_dir(s3: Seaweed) -> str:
    """URL of a folder of its own, which is there as soon as something lies in it."""
    return f"s3://{BUCKET}/test-{next(_NUMBERS)}"


def _web_hdfs(cluster: Cluster, method: str, call: str) -> None:
    connection = http.client.HTTPConnection(cluster.http, timeout=30)
    try:
        connection.request(method, f"/webhdfs/v1{call}&user.name={os.environ.get('USER', 'root')}")
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
    finally:
        connection.close()
