"""What a disk can do: an SSD and a hard disk as sets of numbers, or numbers of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from headrace.core.errors import ConfigError

Profile = Literal["ssd", "hdd", "custom"]
"""A named set of limits; ``custom`` has none but those given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskLimits:
    """The most a disk does in a second; None is not limited."""

    read_bytes_per_s: int | None = None
    write_bytes_per_s: int | None = None
    read_iops: int | None = None
    write_iops: int | None = None


PROFILES: dict[str, DiskLimits] = {
    "ssd": DiskLimits(
        read_bytes_per_s=500_000_000,
        write_bytes_per_s=450_000_000,
        read_iops=50_000,
        write_iops=40_000,
    ),
    "hdd": DiskLimits(
        read_bytes_per_s=160_000_000, write_bytes_per_s=150_000_000, read_iops=120, write_iops=150
    ),
    "custom": DiskLimits(),
}
"""A SATA SSD, and a hard disk of 7,200 turns a minute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskSpec:
    """One disk of a scenario: a profile, and what differs from it."""

    profile: Profile = "ssd"
    size_gb: float = 4.0
    """Its file is sparse: only what is written takes space [10^9 bytes]."""

    read_bytes_per_s: int | None = None
    write_bytes_per_s: int | None = None
    read_iops: int | None = None
    write_iops: int | None = None

    def __post_init__(self) -> None:
        if self.profile not in get_args(Profile):
            raise ConfigError(f"disk.profile={self.profile!r} must be one of {get_args(Profile)}")
        if not 0.02 <= self.size_gb <= 4000:
            raise ConfigError(f"disk.size_gb={self.size_gb:g} must lie in [0.02, 4000]")
        for name in _LIMITS:
            value = getattr(self, name)
            least = 1 if name.endswith("iops") else 4096
            if value is not None and value < least:
                raise ConfigError(f"disk.{name}={value} must be at least {least}")

    @property
    def limits(self) -> DiskLimits:
        """The profile's limits with this disk's own put over them."""
        base = PROFILES[self.profile]
        chosen = {name: getattr(self, name) or getattr(base, name) for name in _LIMITS}
        return DiskLimits(**chosen)


_LIMITS = ("read_bytes_per_s", "write_bytes_per_s", "read_iops", "write_iops")
