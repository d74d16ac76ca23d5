"""What the controller waits for, and how much it remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.errors import ConfigError
from headrace.policy.reservation.limits import ReservationLimits
from headrace.wire.control import TierOffer


@dataclass(frozen=True, kw_only=True, slots=True)
class StewardLimits:
    """The steward's tunables."""

    reservation: ReservationLimits = field(default_factory=ReservationLimits)
    tiers: tuple[TierOffer, ...] = ()
    """Storage that no agent speaks for: trainers read it by themselves."""

    agent_report_s: float = 1.0
    """Agents report this often, and a quota is in force within this time [s]."""

    agent_silent_s: float = 15.0
    """An agent that was not heard of for this long is not counted on [s]."""

    job_silent_s: float = 300.0
    """A job that was not heard of for this long has ended [s]."""

    settle_s: float = 5.0
    """After a restart agents may tell for this long what they enforce [s]."""

    most_reports_per_s: float = 500.0
    """Where hosts would send more health reports, they are asked to leave iterations out [1/s]."""

    most_at_once_per_s: float = 1000.0
    """The hosts of one job spread the reports of an iteration, so that no more come [1/s]."""

    remember: int = 10_000
    """Entries of the ledger, and decisions, that are kept."""

    def __post_init__(self) -> None:
        for name, least in (
            ("agent_report_s", 0.05),
            ("agent_silent_s", 2 * self.agent_report_s),
            ("job_silent_s", self.agent_silent_s),
            ("settle_s", 0.0),
            ("most_reports_per_s", 1.0),
            ("most_at_once_per_s", 1.0),
            ("remember", 1),
        ):
            value = getattr(self, name)
            if not least <= value < float("inf"):  # nor is NaN
                raise ConfigError(
                    f"controller.{name}={value:g} must be at least {least:g}, and finite"
                )
