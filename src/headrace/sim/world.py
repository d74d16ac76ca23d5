"""A run of the simulated estate under one policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.sim.episode import Episode
from headrace.sim.estate import PLAIN, Abilities, Enforcement, Estate
from headrace.sim.job import SimulatedJob
from headrace.sim.policies import Omniscient, Policy
from headrace.sim.recording import Recording


class World:
    """Jobs on an estate, what befalls them, and the policy that divides the bandwidth.

    Two worlds of the same estate, jobs, episodes and seed meet the same chance events, whatever
    their policies do. A world runs once.
    """

    def __init__(
        self,
        estate: Estate,
        jobs: Sequence[SimulatedJob],
        *,
        episodes: Sequence[Episode] = (),
        policy: Policy | Omniscient | None = None,
        abilities: Abilities = PLAIN,
        enforcement: Enforcement | None = None,
        seed: int = 0,
        quantum_s: float = 0.5,
    ) -> None:
        raise NotImplementedError

    def run(self, until_s: float, *, progress: Callable[[float], None] | None = None) -> Recording:
        """Simulate until that time and return what happened.

        Args:
            until_s: Simulated time [s].
            progress: Told the simulated time now and then [s].
        """
        raise NotImplementedError
