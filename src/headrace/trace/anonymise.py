"""Takes out of events who and what they are about, and leaves how long what took.

Every column is named here with what is done to it; one that is not is dropped. Names become keyed
hashes: the same name has the same hash under the same key, and without the key nobody can try
names out.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import CallerError, CorruptDataError, NotFoundError
from headrace.trace.arrays import array_of
from headrace.trace.events import COLUMNS, Kind, Phase, arrow_schema
from headrace.trace.importers.eventparquet import ABOUT_KEY, About
from headrace.trace.leaks import Words
from headrace.trace.opening import Trace
from headrace.trace.parquetfile import EventParquetWriter
from headrace.trace.wellknown import COUNTS, SCHEMES, SUFFIXES, is_name

LEAST_KEY_BYTES = 16
"""Of a key; shorter ones can be found by trying all."""

KEY_BYTES = 32
"""Of a key that is made for one trace [bytes]."""

HASH_CHARACTERS = 12
"""Of a hash: 55 bits, so that a million names do not meet. The first is always ``x``."""

MOST_SHIFT_NS = 10 * 365 * 86_400 * 10**9
"""Times are moved into the future by less than that [ns] …"""

SHIFT_STEP_NS = 1 << 40
"""… and by a multiple of that, 18 min, so that an analysis counts in the same bins [ns]."""

OFFSET_BUCKET = 1 << 20
"""Of which offsets are multiples where sizes are put into buckets [bytes]."""

MOST_REMEMBERED = 1 << 17
"""Names of which hashes are remembered."""

_KEPT = (
    *("duration_ns", "rank", "step", "epoch", "round_trips", "queue_ns", "cpu_ns"),
    *("is_write", "count"),
)
_KINDS, _PHASES = frozenset(Kind), frozenset(Phase)
_COUNTS = array_of(sorted(COUNTS), pa.string())
_COMPONENT = re.compile(r"[^/:\\]+")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)(?=://)")
_SUFFIX = re.compile(r"\.([A-Za-z0-9_]{1,12})$")
_NUMBER_BITS = 52
"""Of a process's number: few enough for any reader of JSON."""


def new_key() -> bytes:
    """Return a key that nobody knows."""
    return secrets.token_bytes(KEY_BYTES)


def read_key(path: Path) -> bytes:
    """Return the key in a file.

    Raises:
        NotFoundError: there is no such file.
        CallerError: it cannot be read, or is too short.
    """
    make = f"make one: head -c {KEY_BYTES} /dev/urandom > {path}"
    try:
        key = path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no key file {path}; {make}") from error
    except OSError as error:
        raise CallerError(f"the key file {path} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY_BYTES:
        raise CallerError(
            f"the key in {path} has {len(key)} bytes, {LEAST_KEY_BYTES} are the least; {make}"
        )
    return key


class Anonymiser:
    """Anonymises events under one key."""

    def __init__(self, key: bytes, *, bucket_sizes: bool = False) -> None:
        """Make one.

        Args:
            key: Of all hashes and of the shift of time, 16 bytes or more.
            bucket_sizes: Round sizes to powers of two, and offsets down to whole MiB.
        """
        self._secret = blake2b(key, digest_size=64, person=b"headrace-anon").digest()
        drawn = int.from_bytes(self._digest(b"time"), "big") % (MOST_SHIFT_NS // SHIFT_STEP_NS)
        self._shift_ns = (1 + drawn) * SHIFT_STEP_NS
        self._hash = lru_cache(maxsize=MOST_REMEMBERED)(self._hashed)
        sizes, offsets = (_to_power_of_two, _to_bucket) if bucket_sizes else (_kept, _kept)
        self._treatments: dict[str, Callable[[pa.Array], pa.Array]] = {
            **dict.fromkeys(_KEPT, _kept),
            "kind": _each(lambda text: text if text in _KINDS else self._hash(text)),
            "phase": _each(lambda text: text if text in _PHASES else self._hash(text)),
            "name": _each(lambda text: text if is_name(text) else self._hash(text)),
            "job": _each(self._hash),
            "host": _each(self._place),
            "replica": _each(self._place),
            "sample": _each(self._path),
            "file": _each(self._path),
            "begin_ns": self._shifted,
            "pid": self._renumbered,
            "tid": self._renumbered,
            "bytes": sizes,
            "offset": offsets,
            "counts": lambda column: _known_counts(column, sizes),
        }

    def anonymised(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return events of the schema without anything that names someone or something.

        Raises:
            CorruptDataError: a time is so late that it cannot be moved.
        """
        schema = arrow_schema()
        columns = [
            self._treatments[name](batch.column(name))
            if name in self._treatments
            else pa.nulls(batch.num_rows, schema.field(name).type)
            for name in COLUMNS
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _hashed(self, text: str) -> str:
        """Return a word that stands for a text."""
        letters = base64.b32encode(self._digest(text.encode("utf-8", "surrogatepass"))).decode()
        return f"x{letters[: HASH_CHARACTERS - 1].lower()}"

    def _place(self, text: str) -> str:
        """Return a host, or a rack and a host and a port, part by part."""
        return _COMPONENT.sub(lambda found: self._hash(found.group()), text)

    def _path(self, text: str) -> str:
        """Return a path or a URL, part by part; a well-known suffix at its end stays."""
        scheme = _SCHEME.match(text)
        known = scheme.group() if scheme and scheme.group().lower() in SCHEMES else ""
        stem, suffix = self._suffix(text[len(known) :])
        return known + _COMPONENT.sub(lambda found: self._part(found.group()), stem) + suffix

    def _part(self, text: str) -> str:
        return text if text in (".", "..") else self._hash(text)

    def _suffix(self, text: str) -> tuple[str, str]:
        """Return a text without the suffixes at its end, and these as they may be told."""
        stem, told = text, ""
        while (found := _SUFFIX.search(stem)) and found[1].lower() in SUFFIXES:
            stem, told = stem[: found.start()], f".{found[1]}{told}"
        if told or not found:
            return stem, told
        return stem[: found.start()], f".{self._hash(found[1])}"

    def _digest(self, data: bytes) -> bytes:
        return blake2b(data, key=self._secret, digest_size=8).digest()

    def _shifted(self, begins: pa.Array) -> pa.Array:
        try:
            return pc.add_checked(begins, self._shift_ns)
        except pa.ArrowInvalid as error:
            raise CorruptDataError(
                "an event of the trace begins more than 270 years after 1970; it is no time"
            ) from error

    def _renumbered(self, numbers: pa.Array) -> pa.Array:
        coded = numbers.dictionary_encode()
        others = [
            int.from_bytes(self._digest(b"number %d" % one), "big") >> (64 - _NUMBER_BITS)
            for one in coded.dictionary.to_pylist()
        ]
        return pa.array(others, pa.int64()).take(coded.indices)


def anonymise(
    trace: Trace,
    path: Path,
    anonymiser: Anonymiser,
    advanced: Callable[[int], None] = lambda _: None,
) -> int:
    """Write a trace anonymised to a Parquet file, and return how many events it has.

    The file is searched for words of the original's names before it gets its name.

    Args:
        trace: Of any format.
        path: Of the file.
        anonymiser: What it is anonymised by.
        advanced: Called with the bytes that were read since the last call.

    Raises:
        CorruptDataError: the trace cannot be read, or a word was found; there is no file then.
        StorageError: the trace cannot be read, or the file cannot be written.
    """
    words = Words()
    with EventParquetWriter(path) as writer:
        for batch in trace.batches(advanced):
            words.add(batch)
            writer.write(anonymiser.anonymised(batch))
        about = _without_names(trace.about())
        writer.describe({ABOUT_KEY: msgspec.json.encode(about)})
        words.require_absent(writer.finish())
        writer.commit()
    return writer.events


def _without_names(about: About) -> About:
    """Return what may be said of a trace: why something is unknown may name hosts."""
    unknown = dict.fromkeys(about.unknown, "the trace that was anonymised does not tell it")
    return msgspec.structs.replace(about, host=None, unknown=unknown)


def _each(treatment: Callable[[str], str]) -> Callable[[pa.Array], pa.Array]:
    """Return what treats a column of text by treating each of its values once."""

    def treated(column: pa.Array) -> pa.Array:
        coded = column.dictionary_encode()
        values = [treatment(one) for one in coded.dictionary.to_pylist()]
        return pa.array(values, pa.string()).take(coded.indices)

    return treated


def _kept(column: pa.Array) -> pa.Array:
    return column


def _to_power_of_two(sizes: pa.Array) -> pa.Array:
    """Round sizes to the nearest power of two, as ratios go; 0 stays, and so does null."""
    numbers = pc.fill_null(sizes, 0).to_numpy(zero_copy_only=False)
    powers = np.rint(np.log2(np.maximum(numbers, 1))).astype(np.int64)
    rounded = np.where(numbers > 0, np.int64(1) << np.minimum(powers, 62), 0)
    return pa.array(rounded, mask=pc.is_null(sizes).to_numpy(zero_copy_only=False))


def _to_bucket(offsets: pa.Array) -> pa.Array:
    return pc.subtract(offsets, pc.bit_wise_and(offsets, OFFSET_BUCKET - 1))


def _known_counts(column: pa.Array, sizes: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Drop numbers whose names are not well known: a name may be anything. Treat sizes as such."""
    names, numbers = column.keys, column.items
    known = pc.is_in(names, _COUNTS).to_numpy(zero_copy_only=False)
    until = np.append(0, np.cumsum(known))
    ends = pa.array(
        until[column.offsets.to_numpy()],
        pa.int32(),
        mask=np.append(pc.is_null(column).to_numpy(zero_copy_only=False), False),
    )
    treated = pc.if_else(pc.match_substring(names, "bytes"), sizes(numbers), numbers)
    return pa.MapArray.from_arrays(ends, names.filter(known), treated.filter(known))
