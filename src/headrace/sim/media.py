"""What carries bytes: solid-state disks, hard disks and network links, as a few numbers each.

A tier's *nominal* rate is what it gives for reads of the estate's usual request size. A job
whose requests are smaller costs more of it per byte, one that reads in sequence costs less;
``cost`` says how much, and so all jobs of a tier share one capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from headrace.core.errors import ConfigError
from headrace.core.media import Media


class Carrier(Protocol):
    """One tier's hardware: equal devices that requests are spread over."""

    @property
    def media(self) -> Media:
        """What kind of tier it is."""
        ...

    @property
    def devices(self) -> int:
        """How many requests are served at a time."""
        ...

    def service_s(self, request_bytes: float, *, sequential: float = 0.0) -> float:
        """Return how long one device works on one request, waiting left out [s]."""
        ...


def nominal_rate(carrier: Carrier, request_bytes: float) -> float:
    """Return what all devices together give for single requests of this size [B/s]."""
    return carrier.devices * request_bytes / carrier.service_s(request_bytes)


def cost(
    carrier: Carrier, request_bytes: float, *, sequential: float, nominal_bytes: float
) -> float:
    """Return how much of the nominal capacity one byte takes; 1 for the nominal request."""
    own = carrier.service_s(request_bytes, sequential=sequential) / request_bytes
    return own * nominal_bytes / carrier.service_s(nominal_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class SolidState:
    """A tier of NVMe or SATA flash: short constant latency, no seeks."""

    media: ClassVar[Media] = "ssd"

    devices: int = 4

    bytes_per_s: float = 3e9
    """Of one device [B/s]."""

    latency_s: float = 100e-6
    """Before a request's first byte [s]."""

    parallel: int = 16
    """Requests whose latencies one device overlaps."""

    def __post_init__(self) -> None:
        _check_positive("solid-state tier", self.devices, self.bytes_per_s, self.parallel)

    def service_s(self, request_bytes: float, *, sequential: float = 0.0) -> float:  # noqa: ARG002
        """Return the device's time for one request: latencies overlap, bytes do not [s]."""
        return self.latency_s / self.parallel + request_bytes / self.bytes_per_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Spinning:
    """A tier of hard disks: each request seeks, except for the part that is read in sequence."""

    media: ClassVar[Media] = "hdd"

    devices: int = 12

    bytes_per_s: float = 200e6
    """Of one disk, in sequence [B/s]."""

    seek_s: float = 0.008
    """Mean seek and rotation [s]."""

    readahead_bytes: float = 4e6
    """Read in sequence before the disk turns to another stream: what is sequential still seeks
    once in so many bytes [bytes]."""

    def __post_init__(self) -> None:
        _check_positive("hard disk tier", self.devices, self.bytes_per_s, self.readahead_bytes)

    def service_s(self, request_bytes: float, *, sequential: float = 0.0) -> float:
        """Return the disk's time for one request, of which a part continues the one before [s]."""
        continued = min(1.0, request_bytes / self.readahead_bytes)
        seeks = (1.0 - sequential) + sequential * continued
        return seeks * self.seek_s + request_bytes / self.bytes_per_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """A network path that jobs with remote data share with others' traffic."""

    media: ClassVar[Media] = "link"
    devices: ClassVar[int] = 1

    bytes_per_s: float = 1.25e9

    def __post_init__(self) -> None:
        _check_positive("link", self.bytes_per_s)

    def service_s(self, request_bytes: float, *, sequential: float = 0.0) -> float:  # noqa: ARG002
        """Return how long a request's bytes keep the link busy [s]."""
        return request_bytes / self.bytes_per_s


def _check_positive(what: str, *values: float) -> None:
    if min(values) <= 0:
        raise ConfigError(
            f"a {what} needs positive numbers, and one of {values} is not; give its devices, "
            "rates and sizes as they are"
        )
