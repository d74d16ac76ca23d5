"""Where a diagnosis begins to say something: every number that decides, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """What findings ask of the evidence."""

    lost_share: float = 0.02
    """Share of the ranks' time from which something is wrong at all, and a cause is named."""

    main_cause: float = 0.5
    """Share of all that was lost from which a cause is named though it took less than that."""

    waiting: float = 0.02
    """Share of the ranks' time from which a window is one in which the job waited."""

    calm_loads: float = 0.2
    """Share of loads in windows without waits from which these tell what is usual for the job."""

    standing: float = 0.8
    """Batches over the usual number that a loop takes in a window less than which, with a
    checkpoint, means that it stood still for that."""

    window_steps: float = 3.0
    """Steps that a window has at least, on average."""

    window_loads: float = 2.0
    """Mean durations of a load that a window has at least."""

    most_windows: int = 256
    """Into which a job's time is divided."""

    least_windows: int = 12
    """The same of short traces, whatever their steps."""

    explained: float = 0.5
    """Time spent on loading over the time waited from which loading explains waits."""

    main_part: float = 0.5
    """Share of loading from which one part of it is to blame."""

    slower: float = 1.3
    """Time per byte over the usual one from which reading was slower than usual."""

    fewer_hits: float = 0.95
    """Hit rate over the usual one up to which a cache holds less than usual."""

    has_cache: float = 0.3
    """Usual hit rate from which there is a cache at all."""

    longer_waits: float = 1.5
    """Waits over the usual ones from which a job that always waits had a cold start, or a storm,
    besides."""

    begun_steps: float = 3.0
    """Steps after a start in which a queue had no time to fill; live reports use the same."""

    round_trips: float = 0.5
    """Share of a request's time that is a round trip from which round trips are to blame."""

    remote_s: float = 2e-4
    """A question about a file that is answered faster was not asked over a network [s]."""

    nominal_bytes_per_s: float = 10e6
    """A request is small if its bytes would take less than half of its time at this rate, which
    a part of any disk or link has [B/s]."""

    slow_host: float = 1.5
    """Mean loading latency over that of the median host from which a host is slow."""

    slow_host_waits: float = 2.0
    """The same of its waits."""

    least_loads: int = 8
    """Of a host that is judged."""

    storm_ranks: float = 4.0
    """Ranks that read or save a checkpoint at once from which it is a storm; and half of all."""

    def __post_init__(self) -> None:
        for name in ("lost_share", "waiting", "calm_loads", "main_part", "round_trips"):
            if not 0 < getattr(self, name) < 1:
                raise ConfigError(
                    f"thresholds.{name}={getattr(self, name):g} must lie between 0 and 1"
                )
