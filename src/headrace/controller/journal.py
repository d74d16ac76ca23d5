"""What a restart must not lose, in one SQLite file.

Each table holds one kind of things: a key and a JSON document, so that ``sqlite3`` shows
them. Changes are collected and written by a thread, half a second apart, in one transaction:
a report costs no write, and one that is killed loses half a second. A journal that cannot be
written (a full disk) keeps nobody from being served: changes stay in memory until it can be
written again. One whose file is deleted is written anew, with all that it held.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeVar, get_args

import msgspec

from headrace.controller.unwritten import Changes, Key, Table, Unwritten
from headrace.core.errors import CallerError, ConfigError
from headrace.wire.control import AgentAnnounced, JobAnnounced
from headrace.wire.estate import Decision, JournalView, LedgerEntry

log = logging.getLogger("headrace.controller.journal")

FORMAT = 1
"""Version of the tables."""

PERIOD_S = 0.5
"""Changes are collected for this long [s]."""

RETRY_S = 5.0
"""A journal that cannot be written is tried again after this time [s]."""

ANSWER_S = 1.0
"""Longest wait for the journal before an answer; one that cannot be written is told [s]."""

BUSY_S = 2.0
"""Longest wait for another process that holds the file [s]."""

_TABLES: tuple[Table, ...] = get_args(Table)
_DOCUMENTS: tuple[Table, ...] = ("lease", "replication", "transfer")
_DURABLE: tuple[Table, ...] = ("lease",)
"""Tables whose rows must outlive a loss of power: copies are raised because they are there."""

_FILES = ("", "-wal", "-shm")

S = TypeVar("S")


class JournalInUseError(CallerError):
    """Another process has the journal open."""


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A host of a job."""

    job: str
    announced: JobAnnounced


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent."""

    agent: str
    announced: AgentAnnounced


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """A quota in force."""

    job: str
    tier: str
    bytes_per_s: float
    asked: float
    reason: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """All that a journal had."""

    hosts: tuple[HostRow, ...] = ()
    agents: tuple[AgentRow, ...] = ()
    quotas: tuple[QuotaRow, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    documents: Mapping[Table, tuple[bytes, ...]] = {}
    """Rows of the tables whose form only their owners know: leases, replications, transfers."""

    @property
    def is_empty(self) -> bool:
        """Whether no job and no agent was known."""
        return not (self.hosts or self.agents)


class Journal:
    """A journal that is open, and written until ``close``. Thread-safe, but for ``close``.

    Args:
        path: Its file; None: nothing is kept.

    Raises:
        JournalInUseError: another controller uses it.
        ConfigError: the file cannot be made or opened.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._ending = threading.Event()
        self._hurry = threading.Event()
        self._written = threading.Condition()
        self._degraded = ""
        self._nbytes = 0
        self._unwritten = Unwritten()
        self.kept = Kept()
        """What it had when it was opened."""
        if path is not None:
            self._connection, self.kept = _open_or_begin_anew(path)
            self._identity = _identity(path)
            self._unwritten = Unwritten(_keys(self._connection))
            self._writer = threading.Thread(
                target=self._write_on, args=(path,), name="journal", daemon=True
            )
            self._writer.start()

    @property
    def is_kept(self) -> bool:
        """Whether there is a file."""
        return self._path is not None

    def put(self, table: Table, key: str, row: msgspec.Struct) -> None:
        """Write down a row, soon."""
        if self._path is not None:
            self._unwritten.put((table, key), msgspec.json.encode(row))

    def drop(self, table: Table, key: str) -> None:
        """Forget a row, soon."""
        if self._path is not None:
            self._unwritten.drop((table, key))

    def sync(self, timeout_s: float = 10.0) -> bool:
        """Wait until all that was put so far is written; any thread may call it.

        What must not happen without a record of it (a raised number of copies) comes after this.

        Returns:
            Whether it is: False where the journal cannot be written, or was told to keep nothing.
        """
        if self._path is None:
            return False
        changed = self._unwritten.changed
        with self._written:
            self._hurry.set()
            return self._written.wait_for(lambda: self._unwritten.holds(changed), timeout_s)

    def view(self) -> JournalView:
        """Return how it is."""
        return JournalView(
            path=str(self._path) if self._path else None,
            degraded=self._degraded,
            nbytes=self._nbytes,
            unwritten=len(self._unwritten),
        )

    def close(self) -> None:
        """Write what is left, and let go of the file."""
        self._ending.set()
        self._hurry.set()
        if self._path is not None:
            self._writer.join(BUSY_S + RETRY_S)
            if _identity(self._path) != self._identity:
                log.error("the journal %s is gone: all that it held is lost", self._path)
            self._connection.close()
            if lost := len(self._unwritten):
                log.error("%d changes could not be written to %s: they are lost", lost, self._path)

    def _write_on(self, path: Path) -> None:
        wait_s = PERIOD_S
        while not self._ending.is_set():
            self._hurry.wait(wait_s)
            self._hurry.clear()
            wait_s = PERIOD_S if self._write(path) else RETRY_S
        self._write(path)

    def _write(self, path: Path) -> bool:
        """Write what was collected; return whether it could be."""
        try:
            self._keep_file(path)
            self._write_changes(path)
        except (sqlite3.Error, OSError) as error:
            self._say_degraded(str(error))
            return False
        self._say_well()
        with self._written:
            self._written.notify_all()
        return True

    def _keep_file(self, path: Path) -> None:
        """Make sure that what is written can be found: somebody may have deleted the file."""
        found = _identity(path)
        if found == self._identity:
            return
        if found[0] not in (None, self._identity[0]):
            raise FileExistsError("another file lies in its place; move that away")
        self._connection = _written_anew(path, self._connection)
        self._identity = _identity(path)
        log.warning("the journal %s was deleted; it is written anew with all that it held", path)

    def _write_changes(self, path: Path) -> None:
        changes = self._unwritten.take()
        if not changes and not self._degraded:
            self._unwritten.written()  # what came was dropped before it was written
            return
        is_durable = any(table in _DURABLE for table, _ in changes)
        try:
            self._connection.execute(f"PRAGMA synchronous={'FULL' if is_durable else 'NORMAL'}")
            with self._connection:
                _apply(self._connection, changes)
        except sqlite3.Error:
            self._unwritten.failed()
            raise
        self._unwritten.written()
        self._nbytes = _size(path)

    def _say_degraded(self, error: str) -> None:
        if not self._degraded:
            log.warning(
                "the journal %s cannot be written: %s; changes are kept in memory and would be "
                "lost by a restart; make room, or see to its directory",
                self._path,
                error,
            )
        self._degraded = error

    def _say_well(self) -> None:
        if self._degraded:
            log.warning("the journal %s can be written again", self._path)
            self._degraded = ""


def _open_or_begin_anew(path: Path) -> tuple[sqlite3.Connection, Kept]:
    """Open a journal; one that is damaged is moved aside, and an empty one begins."""
    try:
        if path.is_dir():
            raise ConfigError(f"the journal {path} is a directory; name a file in it")
        path.parent.mkdir(parents=True, exist_ok=True)
        return _open(path)
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise JournalInUseError(
                f"the journal {path} is in use by another controller; stop that one, or give "
                "another file with --journal"
            ) from error
        raise ConfigError(
            f"the journal {path} cannot be opened: {error}; is there room on its disk, and may "
            "this user write there?"
        ) from error
    except OSError as error:
        raise ConfigError(f"the journal {path} cannot be made: {error}") from error
    except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}")
        log.warning(
            "the journal %s is damaged (%s): it is moved to %s, and an empty one begins; "
            "quotas are taken over from what agents say they enforce",
            path,
            error,
            aside,
        )
        _move(path, aside)
        return _open(path)


def _open(path: Path) -> tuple[sqlite3.Connection, Kept]:
    connection = _connect(path)
    try:
        return connection, _read(connection)
    except BaseException:
        connection.close()
        raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    try:
        _require_format(connection, path)
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        # What a killed process wrote is safe with the kernel; only a host that loses power
        # may lose the last checkpoint's changes, but for those that are made durable.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA journal_size_limit=16777216")
        for table in _TABLES:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (key TEXT PRIMARY KEY, body TEXT NOT NULL)"
            )
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


def _require_format(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse what a later version or another program wrote, before anything of it is touched."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > FORMAT:
        raise ConfigError(
            f"the journal {path} has format {found}, and this controller knows format {FORMAT}: "
            "a later version of headrace wrote it; start that version, or give another file "
            "with --journal"
        )
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
    foreign = {str(name) for (name,) in tables} - set(_TABLES)
    if foreign:
        raise ConfigError(
            f"the journal {path} is another program's database, with a table {min(foreign)!r}; "
            "give another file with --journal"
        )


def _written_anew(path: Path, held: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection to a new file with all that one holds whose file was deleted."""
    new = path.with_name(f"{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    new.unlink(missing_ok=True)
    with closing(sqlite3.connect(new)) as copy:
        held.backup(copy)
    for ending in _FILES[1:]:  # they belong to the old one
        path.with_name(path.name + ending).unlink(missing_ok=True)
    new.replace(path)
    connection = _connect(path)
    held.close()
    return connection


def _read(connection: sqlite3.Connection) -> Kept:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    connection.execute(f"PRAGMA user_version={FORMAT}")
    connection.commit()
    entries = _rows(connection, "entry", LedgerEntry)
    decisions = _rows(connection, "decision", Decision)
    return Kept(
        hosts=_rows(connection, "host", HostRow),
        agents=_rows(connection, "agent", AgentRow),
        quotas=_rows(connection, "quota", QuotaRow),
        entries=tuple(sorted(entries, key=lambda one: one.entry)),
        decisions=tuple(sorted(decisions, key=lambda one: one.decision)),
        documents={table: _bodies(connection, table) for table in _DOCUMENTS},
    )


def _bodies(connection: sqlite3.Connection, table: Table) -> tuple[bytes, ...]:
    found: Iterable[tuple[str]] = connection.execute(f"SELECT body FROM {table} ORDER BY key")
    return tuple(body.encode() for (body,) in found)


def _rows(connection: sqlite3.Connection, table: Table, form: type[S]) -> tuple[S, ...]:
    found: Iterable[tuple[str]] = connection.execute(f"SELECT body FROM {table}")
    return tuple(msgspec.json.decode(body, type=form) for (body,) in found)


def _keys(connection: sqlite3.Connection) -> set[Key]:
    return {
        (table, key)
        for table in _TABLES
        for (key,) in connection.execute(f"SELECT key FROM {table}")
    }


def _apply(connection: sqlite3.Connection, changes: Changes) -> None:
    for table in _TABLES:
        rows = [(key, body) for (of, key), body in changes.items() if of == table]
        connection.executemany(
            f"INSERT INTO {table} VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET body=excluded.body",
            [(key, body.decode()) for key, body in rows if body is not None],
        )
        connection.executemany(
            f"DELETE FROM {table} WHERE key=?", [(key,) for key, body in rows if body is None]
        )


def _move(path: Path, aside: Path) -> None:
    for ending in _FILES:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))


def _identity(path: Path) -> tuple[int | None, ...]:
    """Return the numbers of the files that hold the rows; None where there is none."""
    found = (path.with_name(path.name + ending) for ending in _FILES[:2])
    return tuple(file.stat().st_ino if file.exists() else None for file in found)


def _size(path: Path) -> int:
    files = (path.with_name(path.name + ending) for ending in _FILES)
    return sum(file.stat().st_size for file in files if file.exists())
