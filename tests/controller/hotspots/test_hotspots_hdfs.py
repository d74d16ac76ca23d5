"""Hotspots over a real HDFS: real copies, real controllers that are killed, a store that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dying_desk import LIMITS

from headrace.controller.hotspots.desk import HotspotDesk
from headrace.controller.hotspots.reading import read_hot_files
from headrace.controller.hotspots.stores import open_carrier
from headrace.controller.journal import Journal
from headrace.controller.local import LocalController
from headrace.devhdfs.cluster import Cluster
from headrace.storage.hdfs import HdfsStorage
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.hotspots import HotspotAsked, Hotspots, HotspotView
from waiting import eventually

OWN = 2
NODES = 5


@pytest.fixture(scope="module")
def cluster(hadoop: None) -> Iterator[Cluster]:
    """A cluster of this module's own, for it is disturbed: 5 DataNodes, 2 copies."""
    with (
        Cluster(datanodes=NODES, block_size=1 << 20, replication=OWN) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HADOOP_CONF_DIR", str(running.config_dir))
        yield running


@pytest.fixture
def storage(cluster: Cluster) -> Iterator[HdfsStorage]:
    with closing(HdfsStorage(f"{cluster.url}/")) as opened:
        opened.write("ckpt/hot", os.urandom(2_500_000))
        opened.write("ckpt/cold", os.urandom(10))
        yield opened


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("controller") / "controller.toml"
    path.write_text("[hotspot]\nnode_bytes_per_s = 1e4\n")
    return path


def asked(cluster: Cluster, **changed: object) -> HotspotAsked:
    told: dict[str, object] = {
        "url": f"{cluster.url}/ckpt",
        "world_size": 100,
        "files": ("hot",),
        "eta_s": 60.0,
    }
    return HotspotAsked(**(told | changed))  # type: ignore[arg-type]


class Client:
    """Asks one controller, and one started anew after it."""

    def __init__(self, journal: Path | None, config: Path) -> None:
        self.controller = LocalController(journal, options=("--config", str(config)))

    def __enter__(self) -> Client:
        self.controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.stop()

    def call(self, method: str, path: str, message: HotspotAsked | None = None) -> HotspotView:
        with closing(self._connection()) as connection:
            return connection.call(method, f"/v1/hotspots{path}", HotspotView, message)

    def all(self) -> tuple[HotspotView, ...]:
        with closing(self._connection()) as connection:
            return connection.call("GET", "/v1/hotspots", Hotspots).hotspots

    def state(self, name: str) -> str:
        return self.call("GET", f"/{name}").state

    def _connection(self) -> Connection:
        running = self.controller
        return Connection(
            Endpoint(address=running.address, token=running.token, service="controller")
        )


def live_copies(storage: HdfsStorage) -> int:
    """Return the copies that the block with the fewest has."""
    return min(len(block.replicas) for block in storage.locations("ckpt/hot"))


def test_killed_at_any_step_nothing_is_left_raised(
    cluster: Cluster, storage: HdfsStorage, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("dying_desk.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as lives:
        assert lives.stdin is not None
        assert lives.stdout is not None
        seen = []
        for step in range(1, 30):
            path = tmp_path / f"{step}.db"
            print(step, path, f"{cluster.url}/ckpt", file=lives.stdin, flush=True)
            ended = int(lives.stdout.readline())
            seen.append(storage.replication("ckpt/hot"))
            assert OWN <= seen[-1] <= NODES
            require_lowered(storage, path)
            if ended == 0:
                break
            assert ended == -signal.SIGKILL
        lives.stdin.close()
    assert ended == 0, "there were more steps than are tried"
    assert step > 8, "too few steps for all that is kept, asked for and dropped"
    assert NODES in seen, "it was never killed with copies raised"


def require_lowered(storage: HdfsStorage, path: Path) -> None:
    """Start again long after: all must be as it was, and no record be left."""
    with closing(Journal(path)) as journal:
        desk = HotspotDesk(
            journal,
            read=read_hot_files,
            opened=open_carrier,
            limits=LIMITS,
            wall=lambda: time.time() + 7200.0,
        )
        eventually(lambda: (desk.tick(), desk.is_idle())[1])
        desk.close()
    assert storage.replication("ckpt/hot") == OWN
    with closing(Journal(path)) as journal:
        assert journal.kept.documents["lease"] == ()


def test_copies_are_made_held_over_kills_and_given_back(
    cluster: Cluster, storage: HdfsStorage, tmp_path: Path, config: Path
) -> None:
    with Client(tmp_path / "j.db", config) as client:
        view = client.call("POST", "", asked(cluster, job="llm", lease_s=60.0))
        assert view.kept
        eventually(lambda: client.state(view.id) == "held")
        assert live_copies(storage) == NODES
        assert storage.replication("ckpt/cold") == OWN
        client.controller.kill()
        assert storage.replication("ckpt/hot") == NODES
        client.controller.start()
        eventually(lambda: client.state(view.id) == "held")
        assert [(one.id, one.job) for one in client.all()] == [(view.id, "llm")]
        assert client.call("GET", f"/{view.id}").files[0].original == OWN
        client.call("DELETE", f"/{view.id}")
        client.controller.kill()
        client.controller.start()
        eventually(lambda: storage.replication("ckpt/hot") == OWN)
        eventually(lambda: client.all() == ())


def test_a_namenode_that_freezes_holds_up_nobody_and_no_journal_leaves_nothing(
    cluster: Cluster, storage: HdfsStorage, config: Path
) -> None:
    with Client(None, config) as client:
        view = client.call("POST", "", asked(cluster))
        assert not view.kept
        eventually(lambda: storage.replication("ckpt/hot") > OWN)
        cluster.namenodes[0].freeze()
        try:
            began = time.monotonic()
            client.call("DELETE", f"/{view.id}")
            while time.monotonic() - began < 1.0:
                assert client.state(view.id) == "lowering"
            assert time.monotonic() - began < 15.0
        finally:
            cluster.namenodes[0].thaw()
        eventually(lambda: client.state(view.id) == "gone")
        assert storage.replication("ckpt/hot") == OWN
        client.call("POST", "", asked(cluster))
        eventually(lambda: storage.replication("ckpt/hot") > OWN)
    assert storage.replication("ckpt/hot") == OWN
