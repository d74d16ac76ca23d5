"""What the controller is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headrace.controller.limits import StewardLimits
from headrace.controller.replicating.replicating import ReplicatingConfig
from headrace.core.errors import ConfigError
from headrace.policy.hotspot.limits import HotspotLimits
from headrace.wire.listening import Listen, TlsFiles


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerConfig:
    """One controller."""

    token: str = field(repr=False)
    """What every request but ``/healthz`` must show."""

    listen: Listen = field(default_factory=Listen)
    tls: TlsFiles | None = None
    journal: Path | None = None
    """SQLite file that a restart begins with; None: a restart only knows what agents tell."""

    open_metrics: bool = False
    """``/metrics`` needs no token."""

    tick_s: float = 0.5
    """How often time alone may change quotas [s]."""

    limits: StewardLimits = field(default_factory=StewardLimits)
    hotspots: HotspotLimits = field(default_factory=HotspotLimits)
    replicating: ReplicatingConfig = field(default_factory=ReplicatingConfig)

    def __post_init__(self) -> None:
        if not 0.01 <= self.tick_s <= 10:
            raise ConfigError(f"controller.tick_s={self.tick_s:g} must be 0.01 to 10 seconds")
