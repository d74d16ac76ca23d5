"""Control messages of the agent's HTTP service, as JSON bodies.

Unknown fields are refused on requests (a typo must not pass silently) and ignored on
answers (an agent may be newer than its clients).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.job import JobSpec
from headrace.core.parts import SamplePart
from headrace.core.roster import RosterEntry

PROTOCOL_VERSION = 2

Mode = Literal["transform", "raw-only"]
Want = Literal["any", "raw"]


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Proof that two hosts make the same bytes of the same sample."""

    versions: dict[str, str]
    """Decoder and library versions and the CPU family; told to people when proofs differ."""

    golden: dict[str, str]
    """Golden vector's name → digest of what the job's pipeline makes of it."""


class RegisterJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``PUT /v1/jobs/{job}``: idempotent; every rank of a job sends the same but for ``rank``."""

    spec: JobSpec
    world: int
    """Ranks that share each global batch."""

    cuts: dict[str, int]
    """Sample kind → number of leading ops that the agent is asked to run (0: ship raw bytes)."""

    fingerprint: Fingerprint
    roster: tuple[RosterEntry, ...]
    """The agents that share the job's samples, this one included; empty: what it knows already,
    or it alone."""

    places: str = ""
    """Version of the map of the job's blocks that samples are placed by; empty: none."""

    start_step: int = 0
    """First step that will be asked for: preparation starts there, before the first request."""

    step_time_s: float | None = None
    """Expected time of one step [s], if known before the first one was measured."""

    protocol: int = PROTOCOL_VERSION


class JobRegistered(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to ``RegisterJob``."""

    agent: str
    """The agent's own name, as it stands in rosters."""

    mode: Mode
    reason: str = ""
    """Why the agent serves raw bytes only, in words for a person; empty otherwise."""

    unix_socket: str | None = None
    """Path of a socket that serves the same, for clients on the agent's host."""

    boot: str = ""
    """Changes when the agent restarted, and with it lost what it had prepared."""

    hosts: tuple[str, ...] = ()
    """Names and addresses of the storage nodes beside the agent."""

    weight: int = 1
    """Part of the work that the agent can take now, relative to others'."""

    needs_places: bool = False
    """It does not have the map of this version: send it with ``PUT /v1/jobs/{job}/places``."""


class JobRoster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``PUT`` and ``GET /v1/jobs/{job}/roster``: who shares the samples, and how.

    ``PUT`` is answered with ``JobRegistered``, as a registration is.
    """

    roster: tuple[RosterEntry, ...]
    places: str = ""
    """Version of the map of the job's blocks."""

    cuts: dict[str, int] | None = None
    """Sample kind → number of leading ops that agents are asked to run now; null: as before."""


class StorageNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that holds blocks, as the storage names it."""

    host: str
    address: str
    """``IP:port`` that serves them."""


class SourceBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of one dataset's files, in the order of its index; base64 in JSON."""

    counts: bytes
    """Blocks of each file, ``uint32 [files]``, little-endian; 0 where they are not known."""

    ends: bytes
    """First byte behind each block, ``uint64 [blocks]``, little-endian."""

    sets: bytes
    """Which of ``JobPlaces.sets`` holds each block, ``uint32 [blocks]``, little-endian."""


class JobPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """``GET`` and ``PUT /v1/jobs/{job}/places``: the nodes that hold a job's bytes."""

    version: str = ""
    """Digest of the map; empty: there is none."""

    reason: str = ""
    """Why there is none, or no complete one, in words for a person."""

    nodes: tuple[StorageNode, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ((),)
    """Each set of nodes that holds a block together, as positions in ``nodes``; the first one
    is empty: blocks that no node is known to hold."""

    sources: tuple[SourceBlocks, ...] = ()
    """One for each of the job's datasets."""


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/jobs/{job}/fetch``: asks for samples; the answer is a stream of frames.

    It also tells the agent how far the job is, so that it knows when what is due.
    """

    step: int
    rank: int
    world: int
    samples: tuple[int, ...]
    """Global sample ids."""

    epochs: tuple[int, ...]
    """The epoch of each of ``samples``."""

    consumed_step: int
    """The step that the training loop works on now."""

    step_time_s: float
    """Measured time of one step, smoothed [s]; 0 when not yet known."""

    wait_s: float
    """How long a sample may be waited for before its raw bytes are sent instead [s]."""

    want: Want = "any"
    parts: tuple[SamplePart, ...] = ()
    """Which part of each of ``samples`` is wanted; empty: all are wanted as a whole."""


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Body of every answer that is not 2xx."""

    error: str
    """One sentence: what was wrong and what to do."""

    code: str
    """Stable name: ``unauthorized``, ``unknown-job``, ``outside-roots``, ``stale-index`` …"""
