"""A job's schedule as one agent sees it: which samples of each step are its own."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec
import numpy as np
import numpy.typing as npt

from headrace.agent.tiers import OTHER_TIER
from headrace.core.digest import name_digest
from headrace.core.media import TierName
from headrace.core.parts import WHOLE, SamplePart
from headrace.dataset.media import KINDS
from headrace.policy.lookahead_events import Encoded, Planned, Stored
from headrace.policy.placement import Placement
from headrace.prepare.job import OpenJob
from headrace.prepare.pieces import Pieces, pieces_of
from headrace.prepare.places import Whereabouts
from headrace.wire.messages import RegisterJob

_FIRST_GUESS_BYTES = {"image": 1 << 20, "video": 16 << 20, "audio": 4 << 20, "text": 64 << 10}
_OTHER_GUESS_BYTES = 1 << 20


class AgentPlan:
    """The samples of a job that fall to one agent. Immutable.

    Args:
        job: The job.
        message: Its latest registration.
        agent: The agent's name.
        where: Where the job's blocks lie, if that is known.
        tiers: Tier of each of its sources.
        copies: For each source what tells on which tier the agent's own copy of a row lies now,
            if there is one; nothing: no copies are ever kept.
    """

    def __init__(
        self,
        job: OpenJob,
        message: RegisterJob,
        agent: str,
        where: Whereabouts | None = None,
        tiers: Sequence[TierName] = (),
        *,
        copies: Sequence[Callable[[int], TierName | None]] = (),
    ) -> None:
        names = [entry.name for entry in message.roster]
        self._job = job
        self._cuts = message.cuts
        self._own = names.index(agent) if agent in names else -1
        self._where = where
        self._tiers = tuple(tiers) or (OTHER_TIER,) * len(job.sources)
        self._copies = copies
        self._placement = Placement(message.roster, where.holders if where else ())
        self._kinds = [source.index.kinds for source in job.sources]
        self._costs = [foreseen.costs for foreseen in job.foreseen]
        self._starts = [0, *accumulate(source.samples for source in job.spec.sources)]
        self._recipes = [self._recipes_of(source) for source in range(len(job.sources))]

    def due(self, step: int) -> Sequence[Planned]:
        """Return what this agent prepares of a global batch, each once."""
        batch = self._job.schedule.batch(step)
        pieces = pieces_of(self._job, batch.samples, batch.epochs, self._cuts)
        mine = np.flatnonzero(self._is_mine(pieces)).tolist()
        own = ((int(pieces.samples[n]), int(pieces.epochs[n]), pieces.part(n)) for n in mine)
        return [self.foresee(*visit) for visit in dict.fromkeys(own)]

    def foresee(self, sample: int, epoch: int, part: SamplePart = WHOLE) -> Planned:
        """Return what is known about one sample, or one part of it."""
        source, row = self._split(sample)
        kind = KINDS[self._kinds[source][row]]
        return Planned(
            sample=sample,
            epoch=epoch,
            part=part,
            kind=kind,
            cost_s=float(self._costs[source][row]) / part.count,
            nbytes=part.of(_FIRST_GUESS_BYTES.get(kind, _OTHER_GUESS_BYTES)),
            prepare=self._cuts.get(kind, 0) > 0,
        )

    def stored(self, sample: int) -> Stored:
        """Return the tier that a sample lies on, and how many bytes it has there."""
        source, row = self._split(sample)
        length = int(self._job.sources[source].index.lengths[row])
        return Stored(tier=self._copy(source, row) or self._tiers[source], nbytes=length)

    def unkept(self, sample: int) -> Encoded | None:
        """Return what names a sample's encoded bytes, if reading them may leave a copy.

        None where there is a copy now, or none is ever kept.
        """
        source, row = self._split(sample)
        if not self._copies or self._copy(source, row) is not None:
            return None
        origin = self._job.spec.sources[source]
        return origin.url, origin.index_digest, row

    def recipe(self, sample: int) -> str:
        """Return the digest of what decides a prepared sample's bytes beside number and epoch.

        Empty where the sample is not prepared.
        """
        source, row = self._split(sample)
        return self._recipes[source].get(KINDS[self._kinds[source][row]], "")

    def is_beside(self, sample: int) -> bool | None:
        """Return whether this agent sits beside a sample's bytes; None: it is not known."""
        if self._where is None:
            return None
        number = int(self._where.sets(np.array([sample]))[0])
        return self._own in self._placement.beside(number) if number else None

    def _recipes_of(self, source: int) -> dict[str, str]:
        """Return, for each kind that is prepared, the recipe of a source's samples."""
        spec, program = self._job.spec, self._job.program
        origin = spec.sources[source]
        given = (
            origin.url,
            origin.index_digest,
            self._starts[source],  # an id names another row where the source begins elsewhere
            spec.schedule.seed,
        )
        return {
            kind: name_digest(msgspec.json.encode((given, program.ops[:cut]), order="sorted"))
            for kind, cut in self._cuts.items()
            if cut > 0
        }

    def _copy(self, source: int, row: int) -> TierName | None:
        return self._copies[source](row) if self._copies else None

    def _split(self, sample: int) -> tuple[int, int]:
        source = bisect.bisect_right(self._starts, sample) - 1
        return source, sample - self._starts[source]

    def _is_mine(self, pieces: Pieces) -> npt.NDArray[np.bool_]:
        if self._own < 0:
            return np.zeros(pieces.samples.shape, np.bool_)
        sets = self._where.sets(pieces.samples) if self._where else None
        owner = self._placement.owners(pieces.names, pieces.costs, sets)
        return np.asarray(owner == self._own)
