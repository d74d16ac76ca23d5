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

    shared_bytes: int = 0
    """Of bundles that other ranks of the host had read [bytes]."""

    agent_bytes: int = 0
    """Of files, metadata among them, that agents served since the checkpoint was opened [bytes]."""

    fetch: FetchStatistics = field(default_factory=FetchStatistics)
    """Of the requests."""

    def __str__(self) -> str:
        fetch = self.fetch
        each = fetch.requests / max(self.items, 1)
        return (
            f"{self.items} items, {fetch.wanted_bytes / 1e6:.1f} MB in {self.load_s:.2f} s: "
            f"{fetch.requests} requests ({each:.2f} for each item) of "
            f"{fetch.bytes_per_request / 1e6:.2f} MB, {fetch.retries} again, "
            f"{fetch.round_trip_share:.0%} of their time in round trips; "
            f"{self.shared_bytes / 1e6:.1f} MB from ranks beside it, "
            f"{self.agent_bytes / 1e6:.1f} MB from agents"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterStatistics:
    """What one rank's last save took."""

    items: int = 0
    """Tensors' parts and objects that were written."""

    files: int = 0
    written_bytes: int = 0
    """Of these files [bytes]."""

    begun_anew: int = 0
    """Times that a file was begun again because a node of the store failed."""

    save_s: float = 0.0
    """Until all files were durable [s]."""

    def __str__(self) -> str:
        return (
            f"{self.items} items, {self.written_bytes / 1e6:.1f} MB in {self.files} files in "
            f"{self.save_s:.2f} s, {self.begun_anew} begun anew"
        )
