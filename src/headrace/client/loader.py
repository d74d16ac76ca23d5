"""The loader: batches of a job, in the job's order, one epoch per ``for`` loop."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NoReturn

from headrace.client.batch import Batch
from headrace.client.config import LoaderConfig, config_of
from headrace.client.counts import EpochSummary
from headrace.client.loop import Loop
from headrace.client.machinery import Machinery, MachineryStatistics
from headrace.client.position import Position
from headrace.client.reporting.standing import ControlStatistics
from headrace.client.sources import Urls, find_source, indexes_of, weights_of
from headrace.client.steplog import StepLog, recording_of
from headrace.client.work import Gathered
from headrace.core.errors import CallerError
from headrace.core.job import JobSpec
from headrace.dataset.index import Index
from headrace.prepare.job import OpenJob
from headrace.prepare.profiles import profiles_of
from headrace.transform.explain import KindExplanation, explain
from headrace.transform.ops.user import UserOp
from headrace.transform.unmet import unmet_fields

logger = logging.getLogger("headrace.client")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderStatistics:
    """A loader at this moment."""

    next_step: int
    epoch: int
    step_time_s: float
    """Smoothed time of one step without waiting for data [s]."""

    summary: EpochSummary
    background: MachineryStatistics
    control: ControlStatistics | None = None
    """How the job stands with its controller; None where there is none."""


class Loader:
    """Delivers a training job's batches; made to be iterated once per epoch.

    The batches depend on the datasets, the pipeline, ``seed``, ``batch_size`` and the order
    alone: not on agents, workers, ranks, or what failed on the way. Not thread-safe, and
    bound to the process that made it.

    Example:
        >>> loader = Loader("/data/photos", pipeline=pipeline, batch_size=64)  # doctest: +SKIP
        >>> for batch in loader:  # doctest: +SKIP
        ...     train(batch["image"], batch["label"])
    """

    def __init__(self, urls: Urls, **options: Any) -> None:
        """Open the datasets and, where agents are given, let them begin.

        Args:
            urls: One dataset, several, or a mapping from each to its weight in the mixture.
            **options: The fields of :class:`~headrace.client.config.LoaderConfig`;
                ``batch_size`` must be given.

        Raises:
            ConfigError: an option is unknown or wrong.
            NotFoundError: a dataset or its index is not there.
            AuthError: an agent refuses the token.
            RefusedError: an agent refuses the job, and says why.
            AgentUnavailableError: ``require_agents`` is set and one does not answer.
            StorageError: the folder that ``trace`` names cannot be written.
        """
        self.config: LoaderConfig = config_of(options)
        self.job = _open(urls, self.config)
        self._machinery, log = _machinery(self.job, self.config)
        self._loop = Loop(Position(self.job), self._machinery, log)
        self._finalizer = weakref.finalize(self, self._loop.close)
        self._machinery.meet(0)

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch, or go on in the one that a loaded state is in.

        An epoch that was left early is not resumed: like a ``DataLoader``, the next loop begins
        a new one.
        """
        return self._batches(self._loop.begin())

    def __len__(self) -> int:
        """Return the number of steps in one epoch."""
        return self.job.schedule.steps_per_epoch

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def epoch(self) -> int:
        """The epoch of the step that comes next."""
        return self._loop.position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop begin at the start of ``epoch``; a state loaded inside it is kept.

        A loop that is going on is over with that.
        """
        self._loop.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop is: after batch k, a loader with this state goes on with k + 1.

        Its size is constant. World size, agents and workers may be others on resuming.
        """
        return self._loop.position.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next loop go on where ``state`` was taken; one that is going on is over.

        Raises:
            ConfigError: it is no state, or another job's; it says in what they differ.
        """
        self._loop.load(state)
        self._machinery.meet(self._loop.position.step)

    def summary(self) -> EpochSummary:
        """Return what was delivered of the current epoch: counts, and replaced samples."""
        return self._loop.summary()

    def statistics(self) -> LoaderStatistics:
        """Return what goes on now."""
        return LoaderStatistics(
            next_step=self._loop.position.step,
            epoch=self._loop.position.epoch,
            step_time_s=self._machinery.pace.read().step_time_s,
            summary=self.summary(),
            background=self._machinery.statistics(),
            control=self._machinery.control(),
        )

    def explain(self) -> tuple[KindExplanation, ...]:
        """Return what each op costs, what it does to the bytes and where it runs, per kind.

        Rows are the plan, by the headers in the index; ``running`` is what was measured since,
        and where the cut is by that; ``learned`` corrects what heavy samples are foreseen to take.
        """
        profiles = profiles_of([source.index for source in self.job.sources])
        planned = explain(self.job.program, profiles)
        running, learned = self._machinery.running, self._machinery.learned
        return tuple(
            replace(one, running=running(one.kind), learned=learned(one.kind)) for one in planned
        )

    def close(self) -> None:
        """Stop all threads; further loops are refused. May be called again."""
        self._finalizer()

    def __reduce__(self) -> NoReturn:
        raise CallerError(
            "a loader holds threads and sockets and cannot be pickled or sent to another "
            "process; make one in each process, with its rank and world"
        )

    def _batches(self, steps: Iterator[Gathered]) -> Iterator[Batch]:
        """Hand over batches; the loader lives while this goes on, and no reference is kept."""
        yield from map(attrgetter("batch"), steps)


def _machinery(job: OpenJob, config: LoaderConfig) -> tuple[Machinery, StepLog]:
    """Return what works for a job, and what records its steps."""
    recording = recording_of(config, job.spec.id)
    log = StepLog(recording, job.spec.id, rank=config.rank)
    try:
        return Machinery(job, config, recording), log
    except BaseException:
        log.close()
        raise


def _open(urls: Urls, config: LoaderConfig) -> OpenJob:
    endpoints = config.endpoints()
    weights = weights_of(urls)
    indexes = indexes_of(config.index, weights)
    found = [
        find_source(url, weight, endpoints, index=indexes[url]) for url, weight in weights.items()
    ]
    spec = JobSpec(
        sources=tuple(source.spec for source in found),
        schedule=config.schedule(),
        pipeline=config.pipeline.to_json(),
        on_corrupt=config.on_corrupt,
        run=config.run_name(),
    )
    _warn_of_unmet(config, [source.open.index for source in found])
    own = tuple(op.path for op in config.pipeline.ops if isinstance(op, UserOp))
    return OpenJob(spec, [source.open for source in found], allowed_ops=own)


def _warn_of_unmet(config: LoaderConfig, indexes: Sequence[Index]) -> None:
    present = frozenset().union(*(index.field_names for index in indexes))
    for op, field in unmet_fields(config.pipeline.ops, present):
        logger.warning(
            "op %s acts on the field %r, which no sample has: it does nothing; fields are %s",
            op.name,
            field,
            ", ".join(sorted(present)),
        )
