"""Makes one sample on the trainer, and decides what stands in for one that cannot be made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from headrace.client.complaints import Complaints
from headrace.client.limiter import DirectLimiter
from headrace.core.draws import SampleKey
from headrace.core.errors import (
    CorruptSampleError,
    DeadlineError,
    HeadraceError,
    NotFoundError,
    RemoteError,
    StaleIndexError,
    StorageError,
)
from headrace.core.parts import WHOLE, SamplePart
from headrace.core.record import Record
from headrace.prepare.isolate import run_isolated
from headrace.prepare.job import OpenJob, Place
from headrace.prepare.sample import Prepared, finish_cut, finish_raw
from headrace.prepare.substitute import Substitutes
from headrace.wire.frames import FrameHeader

TRIES = 8
"""Attempts to get a sample's bytes from storage, or from agents where there is no other way:
about 17 s where each fails at once."""

TRY_FOR_S = 20.0
"""No further attempt is begun after so long, beside the time that the job's quota takes: a store
that waits by itself has been patient [s]."""

RETRY_DELAY_S = 0.2
LONGEST_DELAY_S = 5.0
"""Pause before the second attempt, doubled before each further one up to the longest [s]."""

SPOILED = (CorruptSampleError, StaleIndexError)
"""What a sample is replaced for: facts about the dataset, the same for every host. A file that
was changed or removed after it was indexed is one of them."""

STORAGE_FAILED = (StorageError, DeadlineError)
"""How a store fails that this host reads."""

UNREADABLE = (*STORAGE_FAILED, NotFoundError)
"""What a sample is replaced for, like a corrupt one, if its bytes could not be read when it was
indexed either. Else a store that fails ends the loop, as an agent does that is away and the only
way: to go on with other samples would make batches depend on the moment."""

T = TypeVar("T")

FetchRaw = Callable[[SampleKey, str], Mapping[str, bytes]]
"""Gets a sample's encoded fields from an agent, for a trainer that cannot see the storage; the
agent of that name comes last."""


class Pause(Protocol):
    """``time.sleep``, or a test's."""

    def __call__(self, seconds: float, /) -> None:
        """Wait."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A sample at its target cut, or the decision to do without it."""

    record: Record | None
    """None: its rows are dropped."""

    taken: int | None = None
    """Id of the sample that stands in, when it is not the scheduled one."""

    reason: str = ""
    """Why another one stands in, or none does."""

    read_s: float = 0.0
    transform_s: float = 0.0
    storage_bytes: int = 0
    throttled_s: float = 0.0
    """How long it waited for the job's quota before it was read [s]."""


class Maker:
    """Makes samples from storage or from what agents sent. Thread-safe."""

    def __init__(
        self,
        job: OpenJob,
        targets: Mapping[str, int],
        *,
        fetch_raw: FetchRaw,
        limiter: DirectLimiter,
        allowed_ops: tuple[str, ...] = (),
        pause: Pause = time.sleep,
    ) -> None:
        self._job = job
        self._targets = targets
        self._fetch_raw = fetch_raw
        self._limiter = limiter
        self._allowed_ops = allowed_ops
        self._pause = pause
        self._complaints = Complaints()
        self._substitutes = Substitutes(job)
        self._preparers = [job.preparer(source) for source in range(len(job.sources))]

    def sees(self, key: SampleKey) -> bool:
        """Whether this host reads a sample from storage itself."""
        return self._preparers[self._job.source_of(key.sample)] is not None

    def make(self, key: SampleKey, *, late: str = "") -> Made:
        """Make a sample from the bytes in storage, or its replacement.

        Args:
            key: The visit of the sample.
            late: Agent that was asked for it and did not send it; where its bytes have to come
                from an agent, others come first.
        """
        return self._guarded(key, lambda: self._from_storage(key, self._target(key), late))

    def make_part(self, key: SampleKey, part: SamplePart, *, stop: int) -> Made:
        """Make a part of a sample from the bytes in storage, up to a cut.

        Raises:
            HeadraceError: for any reason, it cannot be made; make the whole, which may be replaced.
        """
        place = self._job.place(key.sample)
        preparer = self._preparers[place.source]
        if preparer is None:
            raise StorageError("this host does not see the dataset's files")
        throttled_s = self._throttle(place, part)
        done = preparer.prepare(place.location, key, stop=stop, part=part)
        nbytes = part.of(place.location.length)
        return _made(done, storage_bytes=nbytes, throttled_s=throttled_s)

    def recompute(self, key: SampleKey, *, stop: int, part: SamplePart = WHOLE) -> Record:
        """Make a sample, or a part of it, up to a cut, without a stand-in.

        Raises:
            CorruptSampleError: it cannot be decoded.
        """
        if not part.is_whole:
            record = self.make_part(key, part, stop=stop).record
            assert record is not None
            return record
        place = self._job.place(key.sample)
        self._throttle(place)
        return self._prepare(key, place, stop=stop).record

    def from_raw(self, key: SampleKey, fields: Mapping[str, bytes], *, isolated: bool) -> Made:
        """Make a sample from the encoded fields of a raw frame, or its replacement.

        Args:
            key: The visit of the sample.
            fields: Encoded bytes by field name.
            isolated: Decode in a process of its own: the sample crashed an agent's worker.
        """
        make = self._in_a_process if isolated else self._from_fields
        return self._guarded(key, lambda: make(key, fields))

    def from_cut(self, key: SampleKey, record: Record, *, cut: int) -> Made:
        """Go on with a sample that an agent brought to an earlier cut than the batch's."""
        return self._guarded(key, lambda: self._from_cut(key, record, cut))

    def replacement(self, key: SampleKey, reason: str) -> Made:
        """Return what the job's policy puts in the place of a sample that cannot be made.

        Raises:
            CorruptSampleError: the policy is ``raise``, or no replacement could be made either.
        """
        match self._job.spec.on_corrupt:
            case "drop-from-batch":
                return Made(record=None, reason=reason)
            case "substitute":
                return self._substitute(key, reason)
            case _:
                raise CorruptSampleError(
                    f"{self._name(key)}: {reason}; repair or remove it, or choose "
                    "on_corrupt='substitute' or 'drop-from-batch'"
                )

    def name(self, key: SampleKey) -> str:
        """Return a sample's name inside its dataset."""
        return self._job.place(key.sample).location.key

    def _name(self, key: SampleKey) -> str:
        place = self._job.place(key.sample)
        return f"{self._job.spec.sources[place.source].url}/{place.location.key}"

    def _guarded(self, key: SampleKey, make: Callable[[], Made]) -> Made:
        try:
            return make()
        except SPOILED as error:
            if isinstance(error, StaleIndexError):
                self._complaints.warn("stale", f"{error}; until then others stand in for it")
            return self.replacement(key, str(error))
        except UNREADABLE as error:
            if not self._is_known_broken(key):
                raise
            return self.replacement(key, f"unreadable: {error}")

    def _substitute(self, key: SampleKey, reason: str) -> Made:
        last: HeadraceError | None = None
        target = self._target(key)
        for other in self._substitutes.of(key):
            try:
                made = self._from_storage(other, target)
            except SPOILED as error:
                last = error
                continue
            except UNREADABLE as error:
                if not self._is_known_broken(other):
                    raise
                last = error
                continue
            return Made(
                record=made.record,
                taken=other.sample,
                reason=reason,
                read_s=made.read_s,
                transform_s=made.transform_s,
                storage_bytes=made.storage_bytes,
                throttled_s=made.throttled_s,
            )
        raise CorruptSampleError(
            f"{self._name(key)}: {reason}; none of its replacements could be made either "
            f"(the last: {last}); is the storage reachable? `headrace inspect` lists broken samples"
        ) from last

    def _from_storage(self, key: SampleKey, target: int, late: str = "") -> Made:
        place = self._job.place(key.sample)  # once: a row of the index is not in the cache
        throttled_s = self._throttle(place)
        done = self._prepare(key, place, stop=target, late=late)
        return _made(done, storage_bytes=place.location.length, throttled_s=throttled_s)

    def _throttle(self, place: Place, part: SamplePart = WHOLE) -> float:
        """Wait for the quota of what this host reads from storage itself; return how long [s]."""
        if self._preparers[place.source] is None:
            return 0.0
        return self._limiter.wait(part.of(place.location.length))

    def _prepare(self, key: SampleKey, place: Place, *, stop: int, late: str = "") -> Prepared:
        preparer = self._preparers[place.source]
        tries = TRIES if place.location.broken is None else 1
        if preparer is not None:
            try:
                return self._patiently(
                    lambda: preparer.prepare(place.location, key, stop=stop), tries=tries
                )
            except STORAGE_FAILED as error:
                fields = self._fetched_instead(key, error, late)
        else:
            fields = self._patiently(lambda: self._fetch_raw(key, late), tries=tries)
        return finish_raw(self._job.program, place.location, fields, key, stop=stop)

    def _fetched_instead(
        self, key: SampleKey, error: RemoteError, late: str
    ) -> Mapping[str, bytes]:
        """Return what an agent reads where this host cannot."""
        try:
            return self._fetch_raw(key, late)
        except RemoteError:
            raise error from error.__cause__

    def _is_known_broken(self, key: SampleKey) -> bool:
        return self._job.place(key.sample).location.broken is not None

    def _patiently(self, read: Callable[[], T], *, tries: int) -> T:
        begin = time.monotonic()
        for delay_s in _delays(tries):
            try:
                return read()
            except RemoteError as error:
                if time.monotonic() > self._limiter.held.deadline(begin, TRY_FOR_S):
                    raise
                self._complaints.warn("unreadable", f"{error}; trying again for a while")
                self._pause(delay_s)
        return read()

    def _from_fields(self, key: SampleKey, fields: Mapping[str, bytes]) -> Made:
        location = self._job.place(key.sample).location
        return _made(finish_raw(self._job.program, location, fields, key, stop=self._target(key)))

    def _in_a_process(self, key: SampleKey, fields: Mapping[str, bytes]) -> Made:
        location = self._job.place(key.sample).location
        begin = time.perf_counter()
        record = run_isolated(
            self._job.program.pipeline,
            location,
            fields,
            key,
            stop=self._target(key),
            allowed_ops=self._allowed_ops,
        )
        return Made(record=record, transform_s=time.perf_counter() - begin)

    def _from_cut(self, key: SampleKey, record: Record, cut: int) -> Made:
        stop = self._target(key)
        return _made(finish_cut(self._job.program, record, key, cut=cut, stop=stop))

    def _target(self, key: SampleKey) -> int:
        """Return the cut at which batches take a sample, or what stands in for it."""
        return self._targets[self._job.kind(key.sample)]


def raw_fields(header: FrameHeader, buffers: Sequence[memoryview]) -> dict[str, bytes]:
    """Return the encoded fields of a raw frame."""
    names = (field.name for field in header.fields)
    return {name: bytes(data) for name, data in zip(names, buffers, strict=True)}


def _made(done: Prepared, *, storage_bytes: int = 0, throttled_s: float = 0.0) -> Made:
    return Made(
        record=done.record,
        read_s=done.read_s,
        transform_s=done.transform_s,
        storage_bytes=storage_bytes,
        throttled_s=throttled_s,
    )


def _delays(tries: int) -> Iterator[float]:
    return (min(RETRY_DELAY_S * 2**attempt, LONGEST_DELAY_S) for attempt in range(tries - 1))
