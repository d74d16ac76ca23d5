"""A running HDFS: NameNodes and DataNodes as processes, from start to removal."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from headrace.core.errors import CallerError, DeadlineError, RemoteError
from headrace.devhdfs import jmx, processes
from headrace.devhdfs.artefacts import Say, find_classpath, find_java, silent
from headrace.devhdfs.config import ClusterConfig, NameNodeAddress, client_url
from headrace.devhdfs.daemon import Daemon
from headrace.devhdfs.failover import make_active, make_standby
from headrace.devhdfs.layout import DataNodePlan, Hosts, Layout, NameNodePlan, Runtime
from headrace.devhdfs.watch import start_watch

READY_TIMEOUT_S = 90.0
"""How long a cluster may take to be ready on a busy machine [s]."""

_POLL_S = 0.2
_FORMAT_TIMEOUT_S = 60.0


class NameNode(Daemon):
    """One NameNode process."""

    def __init__(self, plan: NameNodePlan) -> None:
        super().__init__(plan.spec)
        self.address: NameNodeAddress = plan.address
        self._plan = plan

    def state(self) -> jmx.NameNodeState | None:
        """Return what it says about the cluster; None when it does not answer."""
        return jmx.look(self.address.http) if self.is_running else None

    def restart(self) -> None:
        """End the process at once and start it again; ``Cluster.wait_ready`` waits for it."""
        if self.is_running:
            self.kill()
        self.start()

    @property
    def is_formatted(self) -> bool:
        """Whether there is a file system to load."""
        return (self._plan.name_directory / "current" / "VERSION").exists()

    def format(self) -> None:
        """Make an empty file system.

        Raises:
            RemoteError: the NameNode's log says why not.
            DeadlineError: it takes longer than a minute.
        """
        spec = self._plan.spec
        running = spec.launch(self._plan.format_argv, spec.environment, spec.log)
        try:
            code = running.wait(_FORMAT_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise DeadlineError(
                f"{self.name} is not formatted after {_FORMAT_TIMEOUT_S:g} s; see {self.log}"
            ) from error
        finally:
            running.kill()
            running.wait()
        if code:
            raise RemoteError(f"{self.name} cannot be formatted: {self.trouble()}; see {self.log}")

    def copy_names_from(self, other: NameNode) -> None:
        """Take over another NameNode's freshly formatted file system."""
        shutil.copytree(other._plan.name_directory, self._plan.name_directory)


class DataNode(Daemon):
    """One DataNode process."""

    def __init__(self, plan: DataNodePlan) -> None:
        super().__init__(plan.spec)
        self.address = plan.address
        """``IP:port`` that serves its blocks, as block locations name it."""
        self.http = plan.http_address
        """``IP:port`` of its web pages and JMX."""
        self.data_dir = plan.data_directory

    def registrations(self) -> int:
        """Return with how many NameNodes it has registered since it was started."""
        return jmx.registrations(self.http)

    def block_files(self) -> Iterator[Path]:
        """Yield the files of finished blocks on its disk, without their checksums."""
        for file in self.data_dir.glob("current/*/current/finalized/**/blk_*"):
            if file.suffix != ".meta":
                yield file


class Cluster:
    """An HDFS that lives as long as the block it is opened in, or until it is ``left``.

    Should this process be killed, a watcher ends the daemons and removes what they wrote.
    Not thread-safe.

    The first five arguments are the fields of ``ClusterConfig``, where they are described.

    Args:
        directory: Where all files go, and stay; None: a temporary one that is removed.
        jars: Directory of Hadoop's jars; None: ``HADOOP_HOME``, or fetched with Maven once.
        hosts: Where the daemons run, if not all on this host.
        say: Told what takes long, one line each.
    """

    def __init__(
        self,
        *,
        datanodes: int = 3,
        namenodes: int = 1,
        block_size: int = 8 << 20,
        replication: int = 3,
        bandwidth: int | None = None,
        directory: Path | None = None,
        jars: Path | None = None,
        hosts: Hosts | None = None,
        say: Say = silent,
    ) -> None:
        self.config = ClusterConfig(
            datanodes=datanodes,
            namenodes=namenodes,
            block_size=block_size,
            replication=replication,
            bandwidth=bandwidth,
        )
        self._runtime = Runtime(
            java=find_java(),
            classpath=find_classpath(jars, say=say),
            heap_bytes=self.config.heap_bytes,
        )
        self.is_temporary = directory is None
        self.directory = (directory or Path(tempfile.mkdtemp(prefix="headrace-hdfs-"))).absolute()
        self._layout = Layout(self.directory, self.config, hosts or Hosts.here(self.config))
        self.namenodes = [NameNode(plan) for plan in self._layout.namenodes(self._runtime)]
        self.datanodes = [DataNode(plan) for plan in self._layout.datanodes(self._runtime)]
        self._watch: subprocess.Popen[bytes] | None = None
        self._layout.write_client_files()

    @property
    def url(self) -> str:
        """The root as clients write it: ``hdfs://127.0.0.1:PORT``, or the nameservice's."""
        return client_url(self._layout.addresses)

    @property
    def http(self) -> str:
        """``IP:port`` of the first NameNode's WebHDFS, JMX and web pages."""
        return self.namenodes[0].address.http

    @property
    def config_dir(self) -> Path:
        """What clients set ``HADOOP_CONF_DIR`` to."""
        return self._layout.config_dir

    @property
    def namenode(self) -> NameNode:
        """The NameNode that is in charge now, or else the first."""
        return self._active() or self.namenodes[0]

    def start(self) -> None:
        """Start all daemons; they answer some seconds later.

        Raises:
            CallerError: a cluster runs in this directory already.
            RemoteError: a new file system could not be made.
        """
        if running := processes.marked(self.directory):
            raise CallerError(
                f"a cluster runs in {self.directory} already (process {running[0].pid} is its "
                f"{running[0].name}); stop it, or use another directory"
            )
        removes = [self.directory] if self.is_temporary else []
        self._watch = start_watch(self.directory, removes=removes)
        for datanode in self.datanodes:
            datanode.start()  # they try until a NameNode answers
        if not self.namenodes[0].is_formatted:
            self._format()
        for namenode in self.namenodes:
            namenode.start()

    def _format(self) -> None:
        first, *others = self.namenodes
        first.format()
        for other in others:
            other.copy_names_from(first)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every running DataNode has registered and files can be written.

        With two NameNodes, the first becomes active if none is.

        Raises:
            RemoteError: a daemon ended by itself.
            DeadlineError: it takes longer than ``timeout_s``; the message says what is missing.
        """
        deadline = time.monotonic() + timeout_s
        while lacking := self._lacking():
            for daemon in (*self.namenodes, *self.datanodes):
                daemon.require_running()
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"HDFS in {self.directory} is not ready after {timeout_s:g} s: {lacking}; "
                    f"see the logs {self.directory}/*/log"
                )
            self._elect()
            time.sleep(_POLL_S)

    def _lacking(self) -> str:
        """Say what keeps the cluster from being ready; empty when nothing does."""
        asked = [one.state() for one in self.namenodes if one.is_running]
        states = [state for state in asked if state is not None]
        if not states or len(states) < len(asked):
            return "a NameNode does not answer"
        running = [datanode for datanode in self.datanodes if datanode.is_running]
        known = min(state.live_datanodes for state in states)
        if known >= len(running):  # or they are taken for alive that were just restarted
            known = sum(datanode.registrations() >= len(states) for datanode in running)
        if known < len(running):
            return f"{known} of {len(running)} DataNodes have registered"
        if any(state.in_safe_mode for state in states):
            return "a NameNode is in safe mode"
        return "" if any(state.role == "active" for state in states) else "no NameNode is active"

    def _elect(self) -> None:
        """Make the first running NameNode active if all answer and none is."""
        if len(self.namenodes) == 1:
            return
        states = [one.state() for one in self.namenodes]
        if all(state and state.role == "standby" for state in states):
            make_active(self._runtime, self._layout, self.namenodes[0].address)

    def failover(self) -> None:
        """Let the other NameNode take over; the present one, if it lives, becomes standby.

        Raises:
            CallerError: there is only one.
            RemoteError: the NameNodes refused.
        """
        if len(self.namenodes) == 1:
            raise CallerError("one NameNode has nobody to hand over to; use namenodes=2")
        active = self._active()
        if active is not None:
            make_standby(self._runtime, self._layout, active.address)
        successor = next(one for one in self.namenodes if one is not active and one.is_running)
        make_active(self._runtime, self._layout, successor.address)

    def _active(self) -> NameNode | None:
        states = ((one, one.state()) for one in self.namenodes)
        return next((one for one, state in states if state and state.role == "active"), None)

    def leave(self) -> None:
        """Let the daemons go on when this process ends; ``state.end_cluster`` ends them."""
        self._call_off_watch()
        self._layout.ports.release()

    def kill(self) -> None:
        """End all daemons at once, as a power failure would; ``start`` starts them again."""
        processes.end(self.directory, patience_s=0.0)
        for daemon in (*self.namenodes, *self.datanodes):
            daemon.collect()
        self._call_off_watch()

    def close(self) -> None:
        """End all daemons; remove the directory if it is temporary. A second call does nothing."""
        if not self.is_temporary:
            self._stop_in_order()
        self.kill()
        self._layout.ports.release()
        if self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _stop_in_order(self) -> None:
        for daemon in (*self.datanodes, *self.namenodes):
            daemon.stop()

    def _call_off_watch(self) -> None:
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()
            self._watch = None

    def __enter__(self) -> Cluster:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
