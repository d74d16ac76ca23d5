"""A worker process: makes one sample after another and leaves it in the arena.

It holds nothing that is worth keeping. A hostile file may kill it, fill its memory or keep
it busy for ever; the agent then ends it and starts another.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import mmap
import os
import resource
import signal
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from headrace.agent.arena import Extent, pieces
from headrace.agent.coretime import CoreTime
from headrace.agent.fasttier.file import FastFiles
from headrace.agent.fasttier.through import Errand, Fetched, Passage, fetch
from headrace.agent.roots import Located
from headrace.agent.storages import SharedStorages
from headrace.agent.tasks import (
    LENGTH,
    Bundle,
    ClosePipeline,
    Done,
    Failed,
    FromWorker,
    MoreMemory,
    OpenPipeline,
    Outcome,
    Prove,
    Proven,
    Ready,
    Task,
    TooLarge,
    ToWorker,
    Work,
    decode_for_worker,
    encode,
    name_of,
)
from headrace.core.digest import Buffer, payload_digest
from headrace.core.draws import SampleKey
from headrace.core.errors import (
    CorruptSampleError,
    NotFoundError,
    RemoteError,
    StaleIndexError,
)
from headrace.dataset.reader import SampleReader
from headrace.dataset.side import SideFiles
from headrace.prepare.sample import Prepared, Preparer, finish_raw
from headrace.storage.port import Storage
from headrace.transform.fingerprint import fingerprint
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.wire.frames import pack_fields
from headrace.wire.messages import Fingerprint

_PR_SET_PDEATHSIG = 1

HELD_S = 10e-3
"""Outcomes of a bundle are told together, but none is held back for longer while others are made
[s]."""


class Worker:
    """The loop of one worker process."""

    def __init__(self, link: socket.socket, memory: memoryview, fast: FastFiles) -> None:
        self._link = link
        self._memory = memory
        self._fast = fast
        self._sources: dict[int, OpenPipeline] = {}
        self._preparers: dict[int, Preparer] = {}
        self._storages = SharedStorages()
        self._core_time = CoreTime()
        self._put_off: deque[ToWorker] = deque()
        """Came while a task waited for memory."""

    def run(self) -> None:
        """Serve until the agent closes the link."""
        self._send(Ready(pid=os.getpid()))
        while (message := self._next()) is not None:
            match message:
                case Bundle():
                    self._attempt_all(message.works)
                case OpenPipeline():
                    self._sources[message.source] = message
                case ClosePipeline():
                    self._forget(message.source)
                case MoreMemory():
                    pass  # the task it was for is over

    def _attempt_all(self, works: Sequence[Work]) -> None:
        outcomes: list[Outcome] = []
        told_at = time.monotonic()
        for work in works:
            outcomes.append(self._attempt(work))
            if time.monotonic() - told_at > HELD_S:
                self._send(*outcomes)
                outcomes.clear()
                told_at = time.monotonic()
        if outcomes:
            self._send(*outcomes)

    def _attempt(self, work: Work) -> Outcome:
        try:
            return self._prove(work) if isinstance(work, Prove) else self._make(work)
        except CorruptSampleError as error:
            return Failed(ticket=work.ticket, code="corrupt", reason=str(error))
        except (RemoteError, StaleIndexError, NotFoundError) as error:
            return Failed(ticket=work.ticket, code="unreadable", reason=str(error))
        except MemoryError:
            reason = f"{name_of(work)}: needs more memory than a worker may use"
            return Failed(ticket=work.ticket, code="crashed", reason=reason)
        except Exception as error:  # noqa: BLE001 - an op's bug is that sample's, not the worker's
            reason = f"{name_of(work)}: {type(error).__name__}: {error}"
            return Failed(ticket=work.ticket, code="crashed", reason=reason)

    def _prove(self, work: Prove) -> Proven:
        found = fingerprint(self._preparer(work.source).program)
        proof = Fingerprint(versions=found.versions, golden=found.golden)
        return Proven(ticket=work.ticket, fingerprint=proof)

    def _make(self, task: Task) -> Done | Failed:
        before_s, before_cpu_s = self._core_time.seconds(), time.process_time()
        done, passage = self._prepare(task)
        cpu_s = time.process_time() - before_cpu_s
        cores_s = self._core_time.seconds() - before_s
        fields, buffers = pack_fields(done.record)
        nbytes = sum(field.nbytes for field in fields)
        extents = self._room_for(task, nbytes)
        if extents is None:
            reason = f"{nbytes} B do not fit in the agent's memory"
            return Failed(ticket=task.ticket, code="refused", reason=reason)
        copy_into(pieces(self._memory, extents, nbytes), buffers)
        return Done(
            ticket=task.ticket,
            cut=done.cut,
            fields=fields,
            nbytes=nbytes,
            digest=payload_digest(buffers),
            read_s=done.read_s,
            transform_s=done.transform_s,
            cpu_s=cpu_s,
            cores_s=cores_s,
            passage=passage,
        )

    def _prepare(self, task: Task) -> tuple[Prepared, Passage]:
        key = SampleKey(seed=task.seed, epoch=task.epoch, sample=task.sample)
        preparer = self._preparer(task.source)
        if task.errand is None:
            done = preparer.prepare(task.location, key, stop=task.cut, part=task.part)
            return done, Passage()
        fetched, read_s = self._fetch(preparer, task, task.errand)
        program, fields = preparer.program, fetched.fields
        done = finish_raw(program, task.location, fields, key, stop=task.cut)
        return replace(done, read_s=read_s), fetched.passage

    def _fetch(self, preparer: Preparer, task: Task, errand: Errand) -> tuple[Fetched, float]:
        begin = time.perf_counter()
        fetched = fetch(preparer, task.location, errand, self._fast)
        return fetched, time.perf_counter() - begin

    def _preparer(self, source: int) -> Preparer:
        """Open a source when it is first used: one that cannot be opened harms no other."""
        if source not in self._preparers:
            message = self._sources[source]
            with ExitStack() as taken:
                storages = [self._take(place, taken) for place in places_of(message)]
                self._preparers[source] = open_preparer(message, storages[0], storages[-1])
                taken.pop_all()
        return self._preparers[source]

    def _forget(self, source: int) -> None:
        message = self._sources.pop(source, None)
        if message is not None and self._preparers.pop(source, None) is not None:
            for place in places_of(message):
                self._storages.give_back(place)

    def _take(self, place: Located, taken: ExitStack) -> Storage:
        """Return a place's storage, which is given back when ``taken`` is closed."""
        storage = self._storages.take(place)
        taken.callback(self._storages.give_back, place)
        return storage

    def _room_for(self, task: Task, nbytes: int) -> tuple[Extent, ...] | None:
        if nbytes <= sum(extent.length for extent in task.extents):
            return task.extents
        self._send(TooLarge(ticket=task.ticket, nbytes=nbytes))
        answer = self._receive()
        while not isinstance(answer, MoreMemory):
            if answer is None:
                raise SystemExit(0)
            self._put_off.append(answer)
            answer = self._receive()
        return answer.extents or None

    def _next(self) -> ToWorker | None:
        return self._put_off.popleft() if self._put_off else self._receive()

    def _send(self, *messages: FromWorker) -> None:
        self._link.sendall(encode(*messages))

    def _receive(self) -> ToWorker | None:
        head = self._read(LENGTH.size)
        return None if not head else decode_for_worker(self._read(LENGTH.unpack(head)[0]))

    def _read(self, nbytes: int) -> bytearray:
        """Return ``nbytes``, or nothing when the agent closed the link."""
        data, got = bytearray(nbytes), 0
        view = memoryview(data)
        while got < nbytes:
            count = self._link.recv_into(view[got:])
            if not count:
                return bytearray()
            got += count
        return data


def places_of(message: OpenPipeline) -> list[Located]:
    """Return where a source's files are, and where its index lies if that is elsewhere."""
    files = Located(message.url, message.links_within)
    return [files] if message.index is None else [files, message.index]


def open_preparer(message: OpenPipeline, storage: Storage, beside: Storage) -> Preparer:
    """Return what makes the samples of one source; its index lies in ``beside``."""
    program = Program(Pipeline.from_json(message.pipeline, allowed=message.allowed_ops))
    return Preparer(program, SampleReader(storage, side=SideFiles(beside)))


def copy_into(targets: Sequence[Buffer], sources: Sequence[Buffer]) -> None:
    """Copy the bytes of ``sources``, one after another, over the ``targets``."""
    remaining = [memoryview(target) for target in targets]
    for source in sources:
        data = memoryview(source)
        while data.nbytes:
            target = remaining[0]
            count = min(target.nbytes, data.nbytes)
            target[:count] = data[:count]
            data = data[count:]
            remaining[0] = target[count:]
            if not remaining[0].nbytes:
                del remaining[0]


def restrict(*, parent: int, memory_bytes: int) -> None:
    """Die with the agent, yield the CPU to others, and stay within ``memory_bytes``.

    The limit counts from what the process maps once it is set up: libraries and the
    arena are mapped, not used.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _yield_cpu()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _mapped_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _yield_cpu() -> None:
    """Leave the CPU to others: four workers take 6 % of one that another process wants.

    A worker is a session of its own, and where the kernel groups processes by session it
    shares the CPU among groups first: then the group has to be nice too.
    """
    os.nice(19)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:  # noqa: PTH123 - not a real file
        group.write("19")


def _mapped_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123 - not a real file
        return int(status.read().split()[0]) * resource.getpagesize()


def main() -> None:
    """Run as a child of an agent."""
    parser = argparse.ArgumentParser(prog="headrace.agent.worker")
    for name in ("link", "arena", "arena-bytes", "memory-bytes", "parent"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("memory-fd", "memory-bytes", "disk-fd"):
        parser.add_argument(f"--cache-{name}", type=int, required=True)
    given = parser.parse_args()
    arena = mmap.mmap(given.arena, given.arena_bytes)
    fast = FastFiles(
        memory_fd=given.cache_memory_fd,
        memory_bytes=given.cache_memory_bytes,
        disk_fd=given.cache_disk_fd,
    )
    restrict(parent=given.parent, memory_bytes=given.memory_bytes)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the agent is gone
        Worker(socket.socket(fileno=given.link), memoryview(arena), fast).run()


if __name__ == "__main__":
    main()
