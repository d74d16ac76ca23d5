"""Clusters that outlive the command that started them: how the next command finds them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headrace.core.errors import CallerError
from headrace.devhdfs import processes
from headrace.devhdfs.cluster import Cluster
from headrace.devhdfs.config import ClusterConfig

STOP_PATIENCE_S = 10.0
"""How long daemons may take to end by themselves before they are killed [s]."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class DaemonRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One daemon of a recorded cluster."""

    name: str
    address: str
    """``IP:port`` that clients talk to."""

    http: str = ""
    """``IP:port`` of a NameNode's web pages."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as it was started."""

    name: str
    directory: str
    is_temporary: bool
    """Whether the directory goes when the cluster does."""

    url: str
    config_dir: str
    namenodes: tuple[DaemonRecord, ...]
    datanodes: tuple[DaemonRecord, ...]
    config: ClusterConfig
    started: str
    """Time of the start, ISO 8601."""

    @property
    def path(self) -> Path:
        """The cluster's directory."""
        return Path(self.directory)


def describe(name: str, cluster: Cluster) -> Record:
    """Return what to remember of a running cluster."""
    return Record(
        name=name,
        directory=str(cluster.directory),
        is_temporary=cluster.is_temporary,
        url=cluster.url,
        config_dir=str(cluster.config_dir),
        namenodes=tuple(
            DaemonRecord(name=one.name, address=one.address.rpc, http=one.address.http)
            for one in cluster.namenodes
        ),
        datanodes=tuple(
            DaemonRecord(name=one.name, address=one.address) for one in cluster.datanodes
        ),
        config=cluster.config,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def end_cluster(record: Record) -> int:
    """End a recorded cluster's processes and return how many ran; a temporary directory goes."""
    ended = processes.end(record.path, patience_s=STOP_PATIENCE_S)
    if record.is_temporary:
        shutil.rmtree(record.path, ignore_errors=True)
    return ended


def _require_own(folder: Path) -> None:
    """Check that nobody else wrote what is recorded in a folder: records say what is removed."""
    status = folder.lstat()
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        raise CallerError(
            f"{folder} belongs to someone else; set XDG_STATE_HOME to a directory of yours"
        )


class Register:
    """The recorded clusters of one user, a JSON file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def of_user(environment: Mapping[str, str] = os.environ) -> Register:
        """Open the register below ``XDG_STATE_HOME``, else below the home directory.

        Where neither can be written, as for a service user, it is in the temporary directory.
        """
        home = Path(environment.get("HOME", "/nonexistent"))
        state = Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state")
        try:
            return Register(state / "headrace" / "devhdfs")
        except OSError:
            ours = Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}"
            ours.mkdir(mode=0o700, exist_ok=True)
            _require_own(ours)
            return Register(ours / "devhdfs")

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keep other commands away from the cluster of this name while the block runs.

        Raises:
            CallerError: another command is at work on it, or the name is no name.
        """
        if not _NAME.fullmatch(name):
            raise CallerError(
                f"{name!r} is no name for a cluster; use letters, digits, '.', '_' and '-'"
            )
        with (self._folder / f"{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CallerError(
                    f"another command is starting or stopping the cluster {name!r}; "
                    "wait for it, or use another --name"
                ) from error
            yield

    def names(self) -> list[str]:
        """Return the names of all recorded clusters."""
        return sorted(file.stem for file in self._folder.glob("*.json"))

    def load(self, name: str) -> Record | None:
        """Return what is recorded under a name; None when nothing is."""
        try:
            return msgspec.json.decode(self._file(name).read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise CallerError(
                f"{self._file(name)} is not a record of a cluster ({error}); "
                "end its processes by hand and remove the file"
            ) from error

    def save(self, record: Record) -> None:
        """Record a cluster, replacing another of its name."""
        aside = self._file(record.name).with_suffix(".part")
        aside.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2))
        aside.replace(self._file(record.name))

    def forget(self, name: str) -> None:
        """Remove a record."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"
