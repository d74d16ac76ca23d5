"""One checkpoint on its way: which of its files are closed, what is sent, what went wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.policy.replication.events import Chunk, CopyKey, SeenFile

State = Literal["waiting", "copying", "publishing", "published", "skipped", "given-up"]
"""``waiting``: for its files, its turn or a pause's end; ``skipped``: it is not wanted now."""


@dataclass(slots=True)
class Copy:
    """What is known of one checkpoint, and of the copy of it."""

    key: CopyKey
    step: int | None
    first_seen: float
    state: State = "waiting"
    reason: str = ""
    """Why it is in this state, for people."""

    urgent: str = ""
    """Why it goes before all others; empty: it does not."""

    deadline: float = 0.0
    """When somebody will want to read it [s]."""

    missing: str = ""
    """Why it is not complete at the source; empty: it is."""

    marker: str | None = None
    complete_at: float | None = None
    """When it was first seen complete [s]."""

    confirmed: bool = False
    """It was the same when it was looked at again: a listing is no snapshot, and one taken while
    files are made may show the marker and not all that was there before it."""

    asked_again: bool = False
    """Nothing but that second look is missing, and it was asked for."""

    began_at: float | None = None
    over_at: float | None = None
    here_bytes: int = 0
    """What the destination had [bytes]."""

    sent_bytes: int = 0
    staged_bytes: int = 0
    """What an earlier process sent, as far as it is not counted in ``here_bytes`` yet [bytes]."""

    failures: int = 0
    """In a row."""

    retry_at: float = 0.0
    held_up: str = ""
    """What failed last; empty once something went well."""

    preparing: tuple[str, ...] = ()
    """Files that are being cut into chunks."""

    waiting: deque[Chunk] = field(default_factory=deque)
    running: dict[str, Chunk] = field(default_factory=dict)
    files: Mapping[str, SeenFile] = field(default_factory=dict)
    total_bytes: int = 0
    """Of all files that are known [bytes]."""

    _uncut: dict[str, float] = field(default_factory=dict)
    """Files that are not cut into chunks as they are now, and since when they are as they are."""

    @property
    def run(self) -> str:
        """Folder that its own is in: each is of another run, with steps of its own."""
        return self.key.checkpoint.rpartition("/")[0]

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it, unless it changes at the source."""
        return self.state in ("published", "given-up")

    @property
    def is_open(self) -> bool:
        """Whether something is, or will be, done for it."""
        return not self.is_over and self.state != "skipped"

    @property
    def is_busy(self) -> bool:
        """Whether something is done for it, or can be as soon as there is room."""
        under_way = self.running or self.waiting or self.preparing
        return bool(under_way) or self.asked_again or self.state == "publishing"

    @property
    def share(self) -> float:
        """Part that lies at the destination, 0 to 1."""
        there = self.staged_bytes + self.here_bytes + self.sent_bytes
        return min(1.0, there / max(1, self.total_bytes))

    def go_on(self, staged_bytes: int, now: float) -> None:
        """Take note that an earlier process began with it."""
        self.began_at, self.staged_bytes = now, staged_bytes

    def see(self, files: Mapping[str, SeenFile], now: float) -> bool:
        """Take note of the files as they are now; return whether any is new or another one."""
        if files is self.files:
            return False
        changed = [path for path, seen in files.items() if self.files.get(path) != seen]
        gone = self.files.keys() - files.keys()
        self._forget({*changed, *gone}, now)
        for path in gone:
            self._uncut.pop(path, None)
        self.files = files
        self.total_bytes = sum(file.size for file in files.values())
        self._uncut.update(dict.fromkeys(changed, now))
        return bool(changed)

    def closed_files(self, now: float, stable_s: float) -> tuple[str, ...]:
        """Return files that can be cut into chunks.

        All of a complete checkpoint; else those that have not changed for a while and are not
        the marker: a file that is being written grows.
        """
        return tuple(
            path
            for path, since in self._uncut.items()
            if not self.missing
            or (path != self.marker and self.files[path].size > 0 and now - since >= stable_s)
        )

    def prepare(self, paths: tuple[str, ...]) -> None:
        """Take note that files are being cut into chunks, as they are now."""
        self.preparing = paths
        for path in paths:
            self._uncut.pop(path, None)

    def prepared(self, chunks: Iterable[Chunk], here_bytes: int) -> None:
        """Take note of the chunks that are to be sent."""
        self.preparing = ()
        self.staged_bytes = 0
        self.here_bytes += here_bytes
        self.waiting.extend(chunk for chunk in chunks if self._is_current(chunk))

    def start(self, now: float) -> Chunk:
        """Take the next chunk off those that wait."""
        chunk = self.waiting.popleft()
        self.running[chunk.key] = chunk
        self.state = "copying"
        self.began_at = now if self.began_at is None else self.began_at
        return chunk

    def done(self, chunk: str) -> None:
        """Take note that a chunk lies at the destination."""
        found = self.running.pop(chunk, None)
        if found is not None:
            self.sent_bytes += found.nbytes

    def put_back(self, chunk: str) -> None:
        """Let a chunk that ran be sent again, before the others."""
        found = self.running.pop(chunk, None)
        if found is not None and self._is_current(found):
            self.waiting.appendleft(found)

    def recut(self, paths: Iterable[str], now: float) -> None:
        """Let files be cut into chunks anew, once they have not changed for a while."""
        there = {path for path in paths if path in self.files}
        self._forget(there, now)
        self._uncut.update(dict.fromkeys(there, now))

    def recut_all(self, now: float) -> None:
        """Let it begin anew; what the destination has of it is looked for again."""
        self.recut(self.files, now)
        self.preparing = ()
        self.staged_bytes = self.here_bytes = self.sent_bytes = 0

    def skip(self, reason: str, now: float) -> None:
        """Leave it as if it had not begun, as long as it is not wanted."""
        self.abandon()
        self.recut_all(now)
        self.state, self.reason, self.began_at = "skipped", reason, None

    def abandon(self) -> None:
        """Forget what is under way."""
        self.waiting.clear()
        self.running.clear()
        self.preparing = ()

    def is_whole(self) -> bool:
        """Tell whether all that was seen is at the destination, and nothing is under way."""
        under_way = self.preparing or self.waiting or self.running
        return not (self.missing or under_way or self._uncut) and bool(self.files)

    def _forget(self, paths: set[str], now: float) -> None:
        """Drop chunks of files; other files of the same chunks are cut again."""
        if not paths:
            return
        dropped = [chunk for chunk in self.waiting if not paths.isdisjoint(chunk.files)]
        others = {path for chunk in dropped for path in chunk.files} - paths
        self._uncut.update(dict.fromkeys(others & self.files.keys(), now))
        gone = {chunk.key for chunk in dropped}
        self.waiting = deque(chunk for chunk in self.waiting if chunk.key not in gone)

    def _is_current(self, chunk: Chunk) -> bool:
        """Tell whether the files of a chunk are still those that it was cut from."""
        return all(path in self.files and path not in self._uncut for path in chunk.files)
