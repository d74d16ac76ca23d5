"""What the planner of hotspots goes by."""

from __future__ import annotations

from dataclasses import dataclass, fields

from headrace.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class HotspotLimits:
    """How many copies hot files get, and when it is not worth it."""

    idle_ceiling: int = 50
    """Most copies while nodes are idle."""

    busy_ceiling: int = 20
    """Most copies while nodes are busy."""

    idle_transfers: float = 4.0
    """A node that serves as many at once, or fewer, is idle."""

    busy_transfers: float = 32.0
    """A node that serves as many at once, or more, is busy; between the two the ceiling falls."""

    readers_per_copy: float = 2.0
    """Readers that share a copy; with fewer each, copying costs more than reading gains."""

    node_bytes_per_s: float = 100e6
    """What a node is reckoned to send [B/s]."""

    least_saved_s: float = 0.2
    """A raise that saves less time of loading is left [s]."""

    most_copied_share: float = 1.0
    """A raise that copies more than this part of what is read is left."""

    free_share: float = 0.1
    """All copies of one announcement take this part of free space at most."""

    most_growth: int = 3
    """Copies are raised by this factor at most at once: HDFS serves a block with less than a
    third of the copies wanted before those that are really endangered."""

    stage_s: float = 3.0
    """A stage takes at least this time: HDFS looks for missing copies so often [s]."""

    retry_s: float = 1.0
    """First pause after a store refused a number or did not answer; it doubles [s]."""

    longest_retry_s: float = 15.0
    """Longest such pause [s]."""

    unsure_s: float = 60.0
    """A call that was not answered may still be carried out within this time [s]."""

    usual_missing: int = 0
    """Blocks short of copies that a store always has, and that no raise waits for: of files that
    ask for more copies than there are nodes, for instance."""

    def __post_init__(self) -> None:
        if self.usual_missing < 0:
            raise ConfigError(f"hotspot.usual_missing={self.usual_missing} must not be negative")
        for one in fields(self):
            if one.name != "usual_missing" and not 0 < getattr(self, one.name) < float("inf"):
                raise ConfigError(
                    f"hotspot.{one.name}={getattr(self, one.name):g} must be more than 0"
                )
        if self.busy_ceiling > self.idle_ceiling or self.busy_transfers <= self.idle_transfers:
            raise ConfigError(
                "hotspot: busy nodes must allow no more copies than idle ones, and serve more at "
                f"once; idle_ceiling={self.idle_ceiling}, busy_ceiling={self.busy_ceiling}, "
                f"idle_transfers={self.idle_transfers:g}, busy_transfers={self.busy_transfers:g}"
            )
        if self.most_growth < 2:
            raise ConfigError(f"hotspot.most_growth={self.most_growth} must be 2 or more")
