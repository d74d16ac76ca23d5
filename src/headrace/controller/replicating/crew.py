"""Does what the policy of replication decides, each thing in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from headrace.controller.controllerlog import ControllerLog
from headrace.controller.replicating.agents import OF_THE_AGENT, AgentPool
from headrace.controller.replicating.failures import kind_of
from headrace.controller.replicating.sharing import (
    GaveWayError,
    SharedBudget,
    StoppedError,
    Taker,
)
from headrace.controller.replicating.way import Way
from headrace.core.errors import HeadraceError
from headrace.policy.replication.events import (
    ChunkDone,
    ChunkReturned,
    CopyKey,
    Event,
    Failed,
    Pruned,
    Publish,
    Published,
    StartChunk,
)
from headrace.transfer.chunk import ChunkTask
from headrace.transfer.group import copy_group

log = logging.getLogger("headrace.controller.replicating")

Tell = Callable[[Event], None]


class Crew:
    """The threads of a process that copies. Thread-safe.

    Args:
        budget: What they share.
        tell: Takes what happened; called by the threads.
        agents: Who sends chunks instead of this process, where they can.
        log: Records what takes time.
    """

    def __init__(
        self,
        budget: SharedBudget,
        tell: Tell,
        agents: AgentPool | None = None,
        log: ControllerLog | None = None,
    ) -> None:
        self._log = log or ControllerLog(None)
        self._budget = budget
        self._agents = agents
        self._tell = tell
        self._idle = threading.Condition()
        self._jobs: dict[CopyKey, int] = defaultdict(int)
        self._takers: dict[CopyKey, set[Taker]] = defaultdict(set)
        self._dropped: set[CopyKey] = set()
        self._moved: dict[CopyKey, int] = defaultdict(int)
        self._closing: list[threading.Thread] = []

    def prepare(self, way: Way, key: CopyKey, files: tuple[str, ...]) -> None:
        """Cut files into chunks."""
        with self._idle:
            self._dropped.discard(key)
        self._start(key, None, lambda: self._tell(way.prepare(key.checkpoint, files)))

    def send(self, way: Way, action: StartChunk) -> None:
        """Send a chunk."""
        self._start(action.key, action.chunk.key, lambda: self._send(way, action))

    def publish(self, way: Way, action: Publish) -> None:
        """Make a checkpoint appear."""

        def publish() -> None:
            begin = time.monotonic()
            way.publish(action.key.checkpoint, replace=action.replace)
            self._log.called("publish copy", _at_destination(way, action.key), begin)
            with self._idle:
                self._moved.pop(action.key, None)
            self._tell(Published(key=action.key))

        self._start(action.key, None, publish)

    def drop(self, way: Way, key: CopyKey) -> None:
        """Stop the chunks of a checkpoint, and remove what was staged unless it begins again."""
        self.stop(key)
        with self._idle:
            self._dropped.add(key)

        def unstage() -> None:
            with self._idle:
                self._idle.wait_for(lambda: not self._jobs.get(key))
                if key not in self._dropped:
                    return
                self._dropped.discard(key)
                self._moved.pop(key, None)
            try:
                way.unstage(key.checkpoint)
            except (HeadraceError, OSError) as error:
                log.warning("what was staged of %s stays for now: %s", key.checkpoint, error)

        self._start(_housework(way), None, unstage)

    def close(self, way: Way) -> None:
        """Close the stores of a way once nothing of it runs."""

        def close() -> None:
            with self._idle:
                self._idle.wait_for(lambda: not self._is_busy(way.name))
            way.close()

        thread = threading.Thread(target=close, name="replicate-close", daemon=True)
        with self._idle:
            self._closing = [one for one in self._closing if one.is_alive()] + [thread]
            thread.start()

    def prune(self, way: Way, keep: int) -> None:
        """Rid the destination of what is not to be kept."""

        def prune() -> None:
            try:
                self._tell(Pruned(replication=way.name, waits=way.prune(keep)))
            except (HeadraceError, OSError) as error:
                log.warning("old checkpoints at %s stay for now: %s", way.destination.url, error)

        self._start(_housework(way), None, prune)

    def stop(self, key: CopyKey) -> None:
        """Stop the chunks of a checkpoint."""
        with self._idle:
            takers = list(self._takers.get(key, ()))
        for taker in takers:
            taker.stop()

    def stop_all(self) -> None:
        """Stop all chunks."""
        with self._idle:
            keys = list(self._takers)
        for key in keys:
            self.stop(key)

    def is_busy(self, replication: str) -> bool:
        """Tell whether anything of a replication runs."""
        with self._idle:
            return self._is_busy(replication)

    def _is_busy(self, replication: str) -> bool:
        return any(key.replication == replication for key in self._jobs)

    def wait_closed(self, timeout_s: float) -> None:
        """Wait until the ways are closed that are to be, or some time passed."""
        until = time.monotonic() + timeout_s
        with self._idle:
            closing = list(self._closing)
        for thread in closing:
            thread.join(max(0.0, until - time.monotonic()))

    def moved(self, key: CopyKey) -> int:
        """Return all bytes that were asked for so far for a checkpoint [bytes]."""
        with self._idle:
            return self._moved.get(key, 0) + self._under_way(key)

    def under_way(self, key: CopyKey) -> int:
        """Return the bytes that were asked for by its chunks in flight [bytes]."""
        with self._idle:
            return self._under_way(key)

    def _under_way(self, key: CopyKey) -> int:
        return sum(taker.moved_bytes for taker in self._takers.get(key, ()))

    def _send(self, way: Way, action: StartChunk) -> None:
        key, chunk = action.key, action.chunk.key
        tasks, begin = way.tasks(key.checkpoint, chunk), time.monotonic()
        with self._taking(key, action.deadline) as taker:
            agent = self._sent_by_agent(way, tasks, taker)
            if agent is None:
                piece_bytes = self._budget.piece_bytes()
                copy_group(tasks, way.source, way.destination, taker, piece_bytes=piece_bytes)
            moved = taker.moved_bytes
        copy = _at_destination(way, key)
        self._log.called("copy chunk", copy, begin, nbytes=moved, replica=agent)
        way.chunk_is_done(key.checkpoint, chunk)
        self._tell(ChunkDone(key=key, chunk=chunk))

    def _sent_by_agent(self, way: Way, tasks: Sequence[ChunkTask], taker: Taker) -> str | None:
        """Have an agent send a chunk and return its name; None: this process has to."""
        asked: set[str] = set()
        while self._agents is not None:
            with self._agents.hired(way.name, asked) as agent:
                if agent is None:
                    return None
                asked.add(agent)
                try:
                    with self._budget.share(taker) as bytes_per_s:
                        self._agents.send(agent, tasks, bytes_per_s, taker.moved)
                except OF_THE_AGENT as error:
                    self._agents.avoid(agent, way.name, error)
                else:
                    return agent
        return None

    @contextmanager
    def _taking(self, key: CopyKey, deadline: float) -> Iterator[Taker]:
        with self._budget.taker(key, deadline) as taker:
            with self._idle:
                self._takers[key].add(taker)
            try:
                yield taker
            finally:
                with self._idle:
                    self._takers[key].discard(taker)
                    self._moved[key] += taker.moved_bytes

    def _start(self, key: CopyKey, chunk: str | None, work: Callable[[], None]) -> None:
        with self._idle:
            self._jobs[key] += 1
        name = "chunk" if chunk else "checkpoint"
        threading.Thread(
            target=self._run, args=(key, chunk, work), name=f"replicate-{name}", daemon=True
        ).start()

    def _run(self, key: CopyKey, chunk: str | None, work: Callable[[], None]) -> None:
        try:
            work()
        except StoppedError:
            pass
        except GaveWayError:
            self._tell(ChunkReturned(key=key, chunk=chunk or ""))
        except (HeadraceError, OSError) as error:
            self._tell(Failed(key=key, kind=kind_of(error), reason=str(error), chunk=chunk))
        except Exception as error:
            log.exception("a copy of %s ended with a defect of headrace's", key.checkpoint)
            self._tell(Failed(key=key, kind="refused", reason=repr(error), chunk=chunk))
        finally:
            with self._idle:
                self._jobs[key] -= 1
                if not self._jobs[key]:
                    del self._jobs[key]
                    self._takers.pop(key, None)
                self._idle.notify_all()


def _housework(way: Way) -> CopyKey:
    """Return what counts what is done for no single checkpoint; no folder is called so."""
    return CopyKey(way.name, "/")


def _at_destination(way: Way, key: CopyKey) -> str:
    return f"{way.destination.url}/{key.checkpoint}"
