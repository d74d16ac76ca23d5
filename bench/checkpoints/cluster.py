"""Ranks on an emulated cluster: the crew's process, places on hosts, and what is put into HDFS."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from bench.checkpoints.model import Model
from bench.checkpoints.orders import Done, Order, Place, Work
from headrace.core.errors import DeadlineError, RemoteError
from headrace.storage.opening import open_storage
from testbed.host import Host
from testbed.network import NAMESPACES

REPOSITORY = Path(__file__).parents[2]
STARTING_S = 60.0
"""The crew's imports take this long at most, on a machine that is busy [s]."""

MARGIN_S = 60.0
"""Ranks may take so much longer than their work, for starting and comparing [s]."""

UPLOADS = 8
FAST_MBIT_PER_S = 10_000.0


class Crew:
    """The process that ranks are forked from, as a context manager. Not thread-safe.

    Args:
        log: Where ranks' own words go.
    """

    def __init__(self, log: Path) -> None:
        self._log = log

    def __enter__(self) -> Crew:
        paths = filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH")))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.checkpoints.crew"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def carry_out(
        self,
        model: Model,
        work: Work,
        places: Sequence[Place | None],
        *,
        mesh: tuple[int, ...],
        ip: str = "127.0.0.1",
        longest_s: float = 120.0,
    ) -> Done:
        """Let ranks do some work, from their start to their end.

        Args:
            model: What the state is.
            work: What they do.
            places: Where they run.
            mesh: How they share the state.
            ip: Of rank 0's host.
            longest_s: How long the work may take [s].

        Raises:
            DeadlineError: they took longer.
            RemoteError: one failed, or loaded something else than was saved.
        """
        order = Order(
            model=model,
            places=tuple(places),
            mesh=mesh,
            rendezvous=f"{ip}:{_free_port()}",
            work=work,
            longest_s=longest_s + MARGIN_S,
        )
        done = self._ask(order, STARTING_S + order.longest_s)
        if done.error:
            raise RemoteError(f"{work}: {done.error}")
        if unequal := [(one.rank, one.unequal) for one in done.ranks if one.unequal]:
            raise RemoteError(f"{work} loaded what was not saved: {unequal[:3]}")
        return done

    def _ask(self, order: Order, longest_s: float) -> Done:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()
        deadline, told = time.monotonic() + longest_s, b""
        while not told.endswith(b"\n"):
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left_s)[0]:
                raise DeadlineError("the crew does not answer, though its ranks' time is over")
            if not (more := os.read(self._process.stdout.fileno(), 1 << 16)):
                said = self._log.read_text(errors="replace")[-2000:]
                raise RemoteError(f"the ranks' crew ended by itself and said: {said}")
            told += more
        return msgspec.json.decode(told, type=Done)


def _free_port() -> int:
    """Return a port that nobody uses here; on the hosts of a bed only services have any."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def places_on(hosts: Sequence[Host], ranks_per_host: int) -> list[Place]:
    """Return where ranks run: as many on each host, in order."""
    places = []
    for host in hosts:
        scratch = host.directory / "scratch"
        scratch.mkdir(exist_ok=True)
        place = Place(
            host=host.name,
            namespace=f"{NAMESPACES}/{host.namespace}",
            groups=tuple(map(str, host.group.directories)),
            scratch=str(scratch),
        )
        places += [place] * ranks_per_host
    return places


def clear_scratch(hosts: Sequence[Host]) -> None:
    """Remove what loads kept in local files."""
    for host in hosts:
        for left in (host.directory / "scratch").iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def at_full_speed(hosts: Sequence[Host]) -> Iterator[None]:
    """Lift the rates of hosts' links while the block runs, which is not measured."""
    limited = [(host, rate) for host in hosts if (rate := host.spec.group.rate_mbit_per_s)]
    for host, _ in limited:
        host.limit_link(FAST_MBIT_PER_S)
    try:
        yield
    finally:
        for host, rate in limited:
            host.limit_link(rate)


def store(folder: Path, root: str, path: str) -> int:
    """Copy a checkpoint into a new folder of a store, its marker last; return its bytes."""
    files = sorted((one for one in folder.iterdir() if one.is_file()), key=_is_marker)
    with closing(open_storage(root)) as storage, ThreadPoolExecutor(UPLOADS) as pool:
        *data, marker = files
        list(pool.map(lambda one: storage.write(f"{path}/{one.name}", one.read_bytes()), data))
        storage.write(f"{path}/{marker.name}", marker.read_bytes())
    return sum(one.stat().st_size for one in files)


def _is_marker(path: Path) -> tuple[bool, str]:
    return path.name == ".metadata", path.name
