"""What is usual for one host: the latency at which its prefetch keeps up."""

from __future__ import annotations


class SteadyLatency:
    """Learns a latency from iterations that went well, in O(1) memory.

    Lower latencies are believed quickly, whenever they come: what was reached once can be
    reached. Higher ones are believed slowly, and only from iterations whose queue was full,
    so neither a cold start nor congestion, however long, becomes the usual.
    """

    def __init__(self, known_s: float = 0.0, *, fall: float = 0.2, rise: float = 0.04) -> None:
        self.value_s = known_s
        """The usual latency [s]; 0 until one was seen."""

        self._fall = fall
        self._rise = rise

    def observe(self, latency_s: float, *, keeps_up: bool) -> None:
        """Take in the mean latency of one iteration; 0 (no I/O) teaches nothing."""
        if latency_s == 0:
            return
        if self.value_s == 0:
            self.value_s = latency_s
        elif latency_s < self.value_s:
            self.value_s += self._fall * (latency_s - self.value_s)
        elif keeps_up:
            self.value_s += self._rise * (latency_s - self.value_s)

    def ratio(self, latency_s: float) -> float:
        """Return a latency over the usual one; 1 while none is known."""
        return latency_s / self.value_s if self.value_s else 1.0
