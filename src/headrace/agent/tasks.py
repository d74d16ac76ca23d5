"""What the agent and its worker processes tell each other, over a socket pair.

Length-prefixed MessagePack of the structures below: never pickle, so a worker that was
taken over by a hostile file can send nothing that runs in the agent.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import msgspec

from headrace.agent.arena import Extent
from headrace.agent.fasttier.through import Errand, Passage
from headrace.agent.roots import Located
from headrace.core.parts import WHOLE, SamplePart
from headrace.dataset.location import SampleLocation
from headrace.wire.frames import FieldHeader
from headrace.wire.messages import Fingerprint

LENGTH = struct.Struct("<I")
MAX_MESSAGE_BYTES = 64 << 20


class OpenPipeline(msgspec.Struct, frozen=True, kw_only=True, tag="open"):
    """Get ready to make samples of one source of one job."""

    source: int
    """The agent's number of (job, source)."""

    url: str
    """Directory of the source's files, or their store's URL."""

    links_within: str | None
    """Directory that symbolic links may lead into; None in a remote store."""

    pipeline: str
    allowed_ops: tuple[str, ...]
    index: Located | None = None
    """Folder of the index, and of what was derived from the files; None: that of the files."""


class ClosePipeline(msgspec.Struct, frozen=True, kw_only=True, tag="close"):
    """Forget a source."""

    source: int


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """Make one sample, or one part of it, and leave its bytes in the arena."""

    ticket: int
    source: int
    location: SampleLocation
    seed: int
    epoch: int
    sample: int
    cut: int
    extents: tuple[Extent, ...]
    part: SamplePart = WHOLE
    errand: Errand | None = None
    """What the fast tier has to do with it; None: nothing."""


class Prove(msgspec.Struct, frozen=True, kw_only=True, tag="prove"):
    """Make the golden vectors with a source's pipeline."""

    ticket: int
    source: int


class MoreMemory(msgspec.Struct, frozen=True, kw_only=True, tag="more"):
    """Answer to ``TooLarge``: the extents to use now; none when the task is given up."""

    ticket: int
    extents: tuple[Extent, ...]


Work: TypeAlias = Task | Prove


class Bundle(msgspec.Struct, frozen=True, kw_only=True, tag="bundle"):
    """Do this, one after another."""

    works: tuple[Work, ...]


ToWorker: TypeAlias = OpenPipeline | ClosePipeline | Bundle | MoreMemory


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The worker has started."""

    pid: int


class TooLarge(msgspec.Struct, frozen=True, kw_only=True, tag="large"):
    """The result needs more memory than was reserved."""

    ticket: int
    nbytes: int


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The sample lies in the arena."""

    ticket: int
    cut: int
    """Ops that were applied, whatever the job is cut at by now."""

    fields: tuple[FieldHeader, ...]
    nbytes: int
    digest: int
    read_s: float
    transform_s: float
    cpu_s: float = 0.0
    """CPU that it took [s]."""

    cores_s: float = 0.0
    """How much of both it was on a core, or in line for one [s]."""

    passage: Passage = Passage()
    """What became of the task's errand."""


class Proven(msgspec.Struct, frozen=True, kw_only=True, tag="proven"):
    """What became of the golden vectors."""

    ticket: int
    fingerprint: Fingerprint


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The sample could not be made; the worker lives on."""

    ticket: int
    code: str
    """``corrupt``, ``unreadable``, or ``crashed`` when a limit of this host was met."""

    reason: str


Outcome: TypeAlias = Done | Proven | Failed
FromWorker: TypeAlias = Ready | TooLarge | Outcome


def name_of(work: Work) -> str:
    """Return what a person calls it."""
    return work.location.key if isinstance(work, Task) else "the golden vectors"


_encoder = msgspec.msgpack.Encoder()
_from_worker = msgspec.msgpack.Decoder(FromWorker)
_to_worker = msgspec.msgpack.Decoder(ToWorker)


def encode(*messages: ToWorker | FromWorker) -> bytes:
    """Return messages, each with its length in front."""
    bodies = [_encoder.encode(message) for message in messages]
    return b"".join([LENGTH.pack(len(body)) + body for body in bodies])


def decode_for_worker(body: bytes | bytearray) -> ToWorker:
    """Return what the agent said."""
    return _to_worker.decode(body)


def decode_for_agent(body: bytes | bytearray) -> FromWorker:
    """Return what a worker said.

    Raises:
        msgspec.MsgspecError: it is no message; the worker is not to be trusted any more.
    """
    return _from_worker.decode(body)
