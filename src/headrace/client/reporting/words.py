"""What processes of one host say to each other: MessagePack arrays in datagrams."""

from __future__ import annotations

import msgspec

from headrace.client.reporting.figures import Figures
from headrace.core.media import TierName
from headrace.wire.control import HealthAnswer


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank leaves."""


class Word(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True):
    """What the speaker hands on to every rank of its host: enough to take its place, too."""

    boot: str
    """The run that the host reports under."""

    iteration: int
    """The last one that was reported; -1: none."""

    ranks: int
    """Ranks that share what the host may read by itself."""

    tier: TierName
    """Tier of the host's own reads."""

    answer: HealthAnswer | None
    """What the controller said last."""

    answered_at: float
    """When it said so, on the host's monotonic clock [s]; 0: never."""

    away: bool
    """The last attempt to reach it failed."""

    @property
    def has_reported(self) -> bool:
        """Whether the host has told the controller of an iteration."""
        return self.iteration >= 0


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Figures | Goodbye | Word] = msgspec.msgpack.Decoder(
    Figures | Goodbye | Word
)


def pack(said: Figures | Goodbye | Word) -> bytes:
    """Return what is sent."""
    return _encoder.encode(said)


def unpack(data: bytes) -> Figures | Goodbye | Word | None:
    """Return what was sent; None for what is nothing of the kind."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
