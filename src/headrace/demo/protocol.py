"""What the demo and its trainer processes tell each other: one JSON value a line."""

from __future__ import annotations

from typing import Literal

import msgspec

Mode = Literal["local", "headrace", "torch"]


class SegmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one trainer process is to do; it arrives on its standard input."""

    mode: Mode
    root: str
    """The dataset."""

    pipeline: str
    """The pipeline as JSON."""

    batch_size: int
    seed: int
    first_step: int
    """Where in the schedule to begin; both runs of a pair begin at the same step."""

    warmup_steps: int
    """Steps that are trained on but not counted."""

    steps: int
    """Steps that are counted."""

    step_s: float
    """Emulated time of the accelerator per step [s]."""

    first_step_s: float
    """Emulated time of the segment's first step, which is not counted [s]."""

    workers: int
    """Threads, or processes of a torch DataLoader, that decode on the trainer."""

    prefetch_factor: int = 4
    """Batches that each process of a torch DataLoader may have under way; torch's default is 2."""

    cpus: tuple[int, ...]
    """CPUs to run on; empty: any."""

    nice: int = 0
    """Added to the priority value, so that host work keeps its share."""

    agents: tuple[str, ...] = ()
    token: str | None = None
    trace: str | bool = True
    """Folder that the loader records in; True is that of its run."""

    model: bool = False
    """Train a small torch model in each step."""


class Imported(msgspec.Struct, frozen=True, kw_only=True, tag="imported"):
    """The process is up and begins with the loader; what came before is not compared."""


class Stepped(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """One step was trained on."""

    step: int
    counted: bool
    """False for a warm-up step."""

    samples: int
    wait_s: float
    """How long the loop waited for the batch [s]."""

    begin_s: float
    """When the batch was asked for, on the host's monotonic clock [s]."""

    end_s: float
    """When the step was over [s]."""

    loading_cpu_s: float
    """CPU time this process spent on loading so far [s]."""

    ready_batches: int
    """Batches that lay ready when this one was taken."""

    digest: str
    """Digest of the batch, every field and byte."""


class SegmentEnd(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """The segment is over."""

    wire_bytes: int
    samples_prepared: int
    """Made by an agent."""

    samples_raw: dict[str, int]
    """The agents' reason → samples they sent raw, which were decoded here."""

    samples_hedged: int
    """Asked for a second time elsewhere because they were late."""

    samples_local: int
    """Read and decoded here."""

    read_s: float
    """Time spent reading, summed over samples and hosts [s]."""

    transform_s: float
    """Time spent transforming, summed over samples and hosts [s]."""

    substituted: dict[int, str]
    """Corrupt sample → why it was replaced."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The segment ended with an error."""

    error: str
    exit_code: int


Message = Imported | Stepped | SegmentEnd | Failed

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode(message: Message | SegmentPlan) -> bytes:
    """Return the message as one line."""
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes) -> Message:
    """Return the message that a line holds.

    Raises:
        msgspec.DecodeError: the line is something else.
    """
    return _decoder.decode(line)
