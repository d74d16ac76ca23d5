"""What a load or a save took, with units, and as one line for a log."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.client.checkpoint.tally import FetchStatistics


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderStatistics:
    """What one rank's last load took."""

    items: int = 0
    """Tensors' parts and objects that were loaded."""

    load_s: float = 0.0
    """From the first request until all was in place [s]."""

    fetch: FetchStatistics = field(default_factory=FetchStatistics)
    """Of the requests."""

    def __str__(self) -> str:
        fetch = self.fetch
        return (
            f"{self.items} items, {fetch.wanted_bytes / 1e6:.1f} MB in {self.load_s:.2f} s: "
            f"{fetch.requests} requests ({fetch.requests_per_range:.2f} for each item) of "
            f"{fetch.bytes_per_request / 1e6:.2f} MB, {fetch.retries} again, "
            f"{fetch.round_trip_share:.0%} of their time in round trips"
        )
