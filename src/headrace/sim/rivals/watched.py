"""One policy governs while the deployed arbiter only looks on: what would it have diagnosed?

A policy that mends what it finds leaves little to be diagnosed. Where quotas never change, what
was injected lasts, and each diagnosis can be held against it.
"""

from __future__ import annotations

from headrace.policy.reservation.events import Action, Diagnosed, Event
from headrace.sim.policies import Policy


class Watched:
    """Does as one policy decides, and tells what another one diagnoses."""

    def __init__(self, governing: Policy, watching: Policy) -> None:
        self._governing, self._watching = governing, watching

    def handle(self, event: Event, now: float) -> list[Action]:
        """Let both handle the event; of what the watching one decides only diagnoses are told."""
        seen = self._watching.handle(event, now)
        told = [action for action in seen if isinstance(action, Diagnosed)]
        return [*self._governing.handle(event, now), *told]
