"""Reads the output of DLIO, which is MLPerf Storage's: how long each step of each rank took.

DLIO does not tell when a step began. It tells which share of each block of steps the accelerator
worked, and so how long the block lasted; its steps are laid evenly into that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.core.errors import CorruptDataError
from headrace.trace.events import Kind
from headrace.trace.importer import Notes
from headrace.trace.importers import columns
from headrace.trace.importers.text import file_chunks, nan_as_null

_OUTPUT = re.compile(r"(\d{1,9})_output\.json(?:\.gz)?")
_EPOCH = re.compile(r"[0-9]{1,9}")
_SUMMARY = "summary.json"
_SPANS = "per_epoch_stats.json"
_CHECKPOINT = re.compile(r"(?:save_|load_)?ckpt\d+")
_MOST_OFF = 2.0
"""So far may the utilisation that is stated be from that of the ranks [% points]."""

_EDGE = slice(1, -1)
"""Steps of a block of which DLIO states the utilisation: all but the first and the last."""

_NS = 1e9
_LONGEST_S = 1e6
"""No step lasts 11 days [s]."""

_MOST_BYTES = 128 << 20
"""Of one document, decompressed: two million steps of a rank [bytes]."""

_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_Seconds = npt.NDArray[np.float64]
_Document = TypeVar("_Document")


class _Epoch(msgspec.Struct):
    load: dict[str, list[float | None]] = {}
    proc: dict[str, list[float | None]] = {}
    compute: dict[str, list[float | None]] = {}
    au: dict[str, Any] = {}


class _Metric(msgspec.Struct):
    train_au_mean_percentage: float | None = None


class _Summary(msgspec.Struct):
    start: str | None = None
    num_accelerators: int | None = None
    metric: _Metric = msgspec.field(default_factory=_Metric)


class DLIO:
    """An output directory of DLIO, or one rank's file in it."""

    name = "DLIO"

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell by the names of files; of a run that DFTracer traced too, its traces tell more."""
        if not head and path.is_dir():
            return bool(_outputs(path)) and not any(path.glob("*.pfw*"))
        return bool(_OUTPUT.fullmatch(path.name)) and not any(path.parent.glob("*.pfw*"))

    def read(
        self, path: Path, notes: Notes, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the steps of all ranks, a rank after the other.

        Raises:
            CorruptDataError: it tells no step.
            StorageError: a file cannot be read.
        """
        _note_unknown(notes)
        damage = len(notes.problems)
        outputs = _outputs(path) if path.is_dir() else {_rank_of(path): path}
        run = _Run(path if path.is_dir() else path.parent, notes)
        for rank, file in sorted(outputs.items()):
            yield from run.steps(rank, file, advanced)
        if not run.ranks:
            problem = notes.problems.pop(damage) if len(notes.problems) > damage else None
            raise CorruptDataError(problem or f"{path} tells no step; run DLIO to its end")
        if path.is_dir():
            yield from run.checkpoints()
            run.compare()
            advanced(_size_of_others(path, set(outputs.values())))


def _note_unknown(notes: Notes) -> None:
    files = "DLIO tells how long steps and the waits in them took, nothing of files"
    notes.unknown.update({"load": files, "file": files, "offset": files, "bytes": files})
    notes.unknown["begin_ns"] = (
        "DLIO tells how long steps took, not when they began: they are laid evenly into the time "
        "that the stated utilisation gives their block"
    )
    notes.unknown["barrier"] = "DLIO does not tell how much of the time between steps was a wait"


def _outputs(folder: Path) -> dict[int, Path]:
    """Return the file of each rank."""
    files = sorted(path for path in folder.iterdir() if _OUTPUT.fullmatch(path.name))
    return {_rank_of(path): path for path in files}


def _rank_of(path: Path) -> int:
    return int(path.name.partition("_")[0])


def _size_of_others(folder: Path, read: set[Path]) -> int:
    files = (path for path in folder.rglob("*") if path.is_file() and path not in read)
    return sum(path.stat().st_size for path in files)


class _Run:
    """Lays the steps of ranks into the time of a run."""

    def __init__(self, folder: Path, notes: Notes) -> None:
        self._folder = folder
        self._notes = notes
        self._summary = self._beside(_SUMMARY, _Summary) or _Summary()
        self._spans = self._beside(_SPANS, dict[str, dict[str, Any]]) or {}
        start = _moment(self._summary.start)
        self._start_ns = start or 0
        notes.is_relative = notes.is_relative or start is None
        self._stated: list[float] = []
        self.ranks = 0
        """Whose steps were told."""

    def steps(
        self, rank: int, path: Path, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the steps of a rank, a block after the other."""
        output = self._document(path, dict[str, msgspec.Raw], advanced) or {}
        host = self._part(path, "hostname", output.get("hostname"), str)
        begin, found = self._start_ns, False
        epochs = {int(key): text for key, text in output.items() if _EPOCH.fullmatch(key)}
        for number, text in sorted(epochs.items()):
            where = f"{path}, epoch {number}"
            epoch = self._part(where, "", text, _Epoch) or _Epoch()
            step = 1
            for name in epoch.load:
                block = _Block.of(epoch, name)
                if block.is_uneven:
                    self._notes.problem(f"{where}, {name}: its lists are of uneven length")
                begin = self._block_start(number, name) or begin
                if begin + block.lasted_ns >= columns.MOST_NS:
                    self._notes.problem(f"{where}, {name}: lasts longer than any time")
                    continue
                yield block.events(begin, step, {"epoch": number, "rank": rank, "host": host})
                begin += block.lasted_ns
                step += len(block.proc)
                found = found or len(block.proc) > 0
                if name != "eval" and block.stated is not None:
                    self._stated.append(block.stated)
        self.ranks += found

    def checkpoints(self) -> Iterator[pa.RecordBatch]:
        """Yield the checkpoints, which only the first rank tells."""
        for number, told in self._spans.items():
            for name, value in told.items():
                if _CHECKPOINT.fullmatch(name) and (span := self._span(number, name, value)):
                    kind = Kind.CHECKPOINT_READ if "load" in name else Kind.CHECKPOINT_SAVE
                    fields = {"kind": kind, "name": name, "rank": 0}
                    fields |= {"begin_ns": span[0], "duration_ns": span[1] - span[0]}
                    yield columns.batch(1, fields | {"epoch": columns.counts([number])})

    def compare(self) -> None:
        """Note where the summary is not of these ranks."""
        ranks, stated = self._summary.num_accelerators, self._summary.metric
        where = self._folder / _SUMMARY
        if ranks is not None and ranks != self.ranks:
            self._notes.problem(f"{where} is of {ranks} ranks, steps are told of {self.ranks}")
        mean = stated.train_au_mean_percentage
        if mean is not None and self._stated:
            told = sum(self._stated) / len(self._stated)
            if abs(mean - told) > _MOST_OFF:
                self._notes.problem(
                    f"{where} states a utilisation of {mean:.1f} %, its ranks {told:.1f} %"
                )

    def _block_start(self, epoch: int, block: str) -> int | None:
        told = self._spans.get(str(epoch), {}).get(block)
        return _moment(told.get("start")) if isinstance(told, dict) else None

    def _span(self, epoch: str, name: str, value: Any) -> tuple[int, int] | None:
        told = value if isinstance(value, dict) else {}
        start, end = _moment(told.get("start")), _moment(told.get("end"))
        if start is not None and end is not None and end >= start:
            return start, end
        self._notes.problem(f"{self._folder / _SPANS}, epoch {epoch}: {name} has no start and end")
        return None

    def _beside(self, name: str, shape: type[_Document]) -> _Document | None:
        path = self._folder / name
        return self._document(path, shape, lambda _: None) if path.is_file() else None

    def _document(
        self, path: Path, shape: type[_Document], advanced: Callable[[int], None]
    ) -> _Document | None:
        text = self._text(path, advanced)
        return self._part(str(path), "", msgspec.Raw(nan_as_null(text)), shape) if text else None

    def _text(self, path: Path, advanced: Callable[[int], None]) -> bytes:
        """Return a whole file; nothing, with a problem, where it is more than any output."""
        chunks, size = [], 0
        for chunk in file_chunks(path, self._notes, advanced):
            chunks.append(chunk)
            size += len(chunk)
            if size > _MOST_BYTES:
                self._notes.problem(f"{path}: more than {_MOST_BYTES} bytes are no output of DLIO")
                return b""
        return b"".join(chunks)

    def _part(
        self, where: str | Path, name: str, text: msgspec.Raw | None, shape: type[_Document]
    ) -> _Document | None:
        """Decode a part of a document; what it is not is a problem."""
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=shape)
        except _DAMAGE as error:
            self._notes.problem(f"{where}{name and ', '}{name}: not an output of DLIO ({error})")
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Steps in a row, without a checkpoint between them."""

    name: str
    load: _Seconds
    """Wait for the batch of each step [s]."""

    proc: _Seconds
    """Each step, from when its batch was asked for [s]."""

    compute: _Seconds | None
    """Of each step [s]; none where it is not told."""

    stated: float | None
    """Share of the time that the accelerator worked [%]."""

    is_uneven: bool

    @classmethod
    def of(cls, epoch: _Epoch, name: str) -> _Block:
        """Return a block of an epoch, as far as all its lists go."""
        load, proc = _seconds(epoch.load[name]), _seconds(epoch.proc.get(name, []))
        compute = _seconds(epoch.compute[name]) if name in epoch.compute else None
        lengths = {len(one) for one in (load, proc, compute) if one is not None}
        steps = min(lengths)
        stated = epoch.au.get(name)
        is_share = isinstance(stated, int | float) and 0 < stated <= 100
        return cls(
            name=name,
            load=load[:steps],
            proc=proc[:steps],
            compute=None if compute is None else compute[:steps],
            stated=stated if is_share else None,
            is_uneven=len(lengths) > 1,
        )

    @property
    def lasted_ns(self) -> int:
        """Return how long it lasted, with the time between its steps [ns]."""
        return int(np.nansum(self.proc) * _NS) + len(self.proc) * self._between_ns

    @property
    def _between_ns(self) -> int:
        """Return the mean time from the end of a step to the beginning of the next [ns]."""
        if self.compute is None or self.stated is None or not len(self.proc[_EDGE]):
            return 0
        steps = np.nansum(self.proc[_EDGE])
        lasted = np.nansum(self.compute[_EDGE]) / (self.stated / 100)
        return int(min(max(lasted - steps, 0.0), _LONGEST_S) / len(self.proc) * _NS)

    def events(self, begin_ns: int, first_step: int, whose: dict[str, Any]) -> pa.RecordBatch:
        """Return its steps, the waits in them and the computation after those."""
        proc = _nanoseconds(self.proc)
        before = np.cumsum(np.nan_to_num(proc)) - np.nan_to_num(proc)
        count = np.arange(len(proc))
        begin = begin_ns + before.astype(np.int64) + count * self._between_ns
        load = _nanoseconds(self.load)
        told = {Kind.STEP: (begin, proc), Kind.WAIT: (begin, load)}
        if self.compute is not None:
            worked = begin + np.nan_to_num(load).astype(np.int64)
            told[Kind.COMPUTE] = worked, _nanoseconds(self.compute)
        kinds = pa.array([kind for kind in told for _ in count], pa.string())
        return columns.batch(
            len(kinds),
            {
                "kind": kinds,
                "begin_ns": pa.array(np.concatenate([begin for begin, _ in told.values()])),
                "duration_ns": pa.array(
                    np.concatenate([lasted for _, lasted in told.values()]), from_pandas=True
                ).cast(pa.int64()),
                "name": self.name,
                "step": pa.array(np.tile(count + first_step, len(told))),
                **whose,
            },
        )


def _seconds(told: list[float | None]) -> _Seconds:
    """Return times, NaN where one cannot be."""
    times = np.array([np.nan if one is None else one for one in told], np.float64)
    return np.where((times >= 0) & (times < _LONGEST_S), times, np.nan)


def _nanoseconds(times: _Seconds) -> _Seconds:
    return np.rint(times * _NS)


def _moment(told: Any) -> int | None:
    """Return a time of DLIO, which is in UTC, since 1970 [ns]."""
    try:
        when = datetime.fromisoformat(told)
    except (TypeError, ValueError):
        return None
    moment = int(when.replace(tzinfo=UTC).timestamp() * 1_000_000) * 1000
    return moment if abs(moment) < columns.MOST_NS else None
