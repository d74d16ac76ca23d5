"""What a client of an object store is told besides the URL: how long and how much."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from headrace.core.errors import ConfigError
from headrace.storage.waits import read_waits

WAIT_VARIABLES = {
    "outage_s": "HEADRACE_OBJECTS_OUTAGE_S",
    "read_timeout_s": "HEADRACE_OBJECTS_TIMEOUT_S",
    "silence_s": "HEADRACE_OBJECTS_SILENCE_S",
}
"""Option → variable of the environment that sets it; agents set them for their workers."""

REVALIDATE_VARIABLE = {"revalidate_s": "HEADRACE_OBJECTS_REVALIDATE_S"}
"""Also read, but a fact of the data, which nobody sets for others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectsConfig:
    """Bounds of waiting and of what is under way at once.

    Who asks, where, and by which keys is what obstore finds in the environment, and
    ``headrace.storage.objects.profile`` in files of profiles.
    """

    connect_timeout_s: float = 3.0
    """Longest wait for a connection [s]."""

    silence_s: float = 10.0
    """Silence of a store after which it is asked anew; slow bytes are left alone: to ask twice
    makes what is slow slower [s]."""

    read_timeout_s: float = 120.0
    """Longest single request that reads, with all bytes of its answer [s]."""

    write_timeout_s: float = 300.0
    """Longest single request that writes: a part that is sent, or 5 GB that are copied within the
    store [s]."""

    outage_s: float = 60.0
    """How long a store that answered before is asked again while it fails or throttles [s]."""

    revalidate_s: float = 30.0
    """So long what the last answer said of an object is believed [s]."""

    part_bytes: int = 8 * 1024 * 1024
    """A longer range is read in parts of this size, several at a time [bytes]."""

    gap_bytes: int = 1024 * 1024
    """Bytes between two ranges that are rather read than left out: a request costs about 20 ms,
    in which a connection brings as many [bytes]."""

    requests_in_flight: int = 32
    """Parts that one process reads at the same time; the most that any of its stores asks for
    counts."""

    upload_bytes: int = 16 * 1024 * 1024
    """Size of the parts of an upload; there may be 10,000 of them, so a file may have 160 GB
    [bytes]."""

    uploads_in_flight: int = 4
    """Parts of one file that are uploaded at the same time, and so held in memory."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if not value > 0:
                raise ConfigError(f"objects.{option.name}={value} must be above 0")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ObjectsConfig:
        """Read ``WAIT_VARIABLES`` and ``REVALIDATE_VARIABLE``.

        Raises:
            ConfigError: one is no number above 0.
        """
        return cls(**read_waits(WAIT_VARIABLES | REVALIDATE_VARIABLE, environment))
