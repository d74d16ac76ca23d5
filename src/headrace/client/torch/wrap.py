"""A loader over an existing map-style dataset of torch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal, NoReturn, get_args

from torch.utils.data import IterableDataset, default_collate

from headrace.client.config import LoaderConfig, config_of
from headrace.client.counts import EpochSummary
from headrace.client.loop import Loop
from headrace.client.position import Position
from headrace.client.prefetch import PrefetchLimits
from headrace.client.steplog import StepLog, recording_of
from headrace.client.torch.loader import rank_and_world
from headrace.client.torch.mapstyle.recipe import Collate, MapDataset, Plan, Recipe
from headrace.client.torch.mapstyle.supply import InlineSupply, ProcessSupply, Workforce
from headrace.client.torchoptions import refuse_torch_options
from headrace.client.work import Gathered
from headrace.core.digest import name_digest
from headrace.core.errors import CallerError, ConfigError
from headrace.core.job import JobSpec, SourceSpec
from headrace.core.keys import key_hint
from headrace.schedule.schedule import Schedule

StartMethod = Literal["fork", "spawn", "forkserver"]

OPTIONS = (
    "batch_size", "seed", "order", "block", "mix", "tail", "epoch_samples", "on_corrupt", "rank",
    "world", "run", "prefetch_steps", "prefetch_bytes", "timeout_s", "trace",
)  # fmt: skip
"""Options of :class:`~headrace.client.config.LoaderConfig` that mean something here."""

_LOADERS_ONLY = tuple({item.name for item in fields(LoaderConfig)} - {*OPTIONS, "workers"})

READY_PER_WORKER = 3
"""Steps that may be ready or in the making for each worker, unless told otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrappedStatistics:
    """A wrapped dataset's loader at this moment."""

    next_step: int
    epoch: int
    summary: EpochSummary
    ready_steps: int
    """Steps that lay ready when the loop asked for its last one."""

    deaths: int
    """How often a worker process died and was started again."""


def wrap(
    dataset: MapDataset,
    *,
    collate_fn: Collate | None = None,
    workers: int | None = None,
    start_method: StartMethod | None = None,
    worker_init_fn: Callable[[int], None] | None = None,
    version: str = "",
    **options: Any,
) -> WrappedLoader:
    """Return a loader over a map-style dataset, whose code runs in processes of this host.

    Order, epochs, resuming, ranks and recording are those of :class:`headrace.torch.Loader`;
    batches are what ``collate_fn`` returns. Agents cannot help: they do not run a job's code.

    Args:
        dataset: Has ``__getitem__`` and ``__len__``. Changes after the first loop has begun are
            not seen, as in workers of a ``DataLoader``.
        collate_fn: Makes a batch of a list of samples; None: torch's.
        workers: Processes; None: this rank's part of the CPUs; 0: samples are made in the loop.
        start_method: Of the processes; None: what ``multiprocessing`` does, as a ``DataLoader``.
        worker_init_fn: Called with the worker's number before its first sample.
        version: Tells this dataset from others of its class and length: a state that was taken
            with another one is refused.
        **options: ``batch_size`` (over all ranks), and those of ``OPTIONS``; ``on_corrupt`` is
            "raise" by default.

    Raises:
        ConfigError: an option is unknown or wrong, or the dataset is not map-style.
    """
    config = _config(options)
    own = config.threads() if workers is None else _checked_workers(workers)
    recipe = Recipe(
        dataset=dataset,
        collate=collate_fn or default_collate,
        samples=_length(dataset),
        on_corrupt=config.on_corrupt,
    )
    job = _job(recipe, config, version)
    plan = Plan(schedule=job.schedule, rank=config.rank, world=config.world)
    if own == 0:
        return WrappedLoader(job, config, InlineSupply(plan, recipe))
    ahead = 0 if "prefetch_steps" in options else READY_PER_WORKER * own
    limits = PrefetchLimits(
        steps=max(config.prefetch_steps, ahead), budget_bytes=config.prefetch_bytes
    )
    force = Workforce(
        workers=own,
        start_method=_checked_method(start_method),
        begin=worker_init_fn,
        limits=limits,
        timeout_s=config.timeout_s,
    )
    return WrappedLoader(job, config, ProcessSupply(plan, recipe, force))


class WrappedLoader:
    """Delivers what a collate function makes of a map-style dataset; made by :func:`wrap`.

    A batch depends on the dataset, ``seed``, ``batch_size`` and the order alone: the generators of
    ``random``, ``numpy.random`` and ``torch`` are seeded for each sample. Not thread-safe, and
    bound to the process that made it.
    """

    def __init__(
        self, job: _Job, config: LoaderConfig, supply: ProcessSupply | InlineSupply
    ) -> None:
        self.config = config
        self._job = job
        self._supply = supply
        log = StepLog(recording_of(config, job.spec.id), job.spec.id, rank=config.rank)
        self._loop = Loop(Position(job), supply, log)
        self._finalizer = weakref.finalize(self, self._loop.close)

    def __iter__(self) -> Iterator[Any]:
        """Begin the next epoch, or go on in the one that a loaded state is in."""
        return self._batches(self._loop.begin())

    def __len__(self) -> int:
        """Return the number of steps in one epoch."""
        return self._job.schedule.steps_per_epoch

    def __enter__(self) -> WrappedLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def epoch(self) -> int:
        """The epoch of the step that comes next."""
        return self._loop.position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop begin at the start of ``epoch``; a state loaded inside it is kept."""
        self._loop.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop is; equal on all ranks, of constant size."""
        return self._loop.position.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the state was taken, on this or another world size.

        Raises:
            ConfigError: it is another job's: class, length or version of the dataset differ, or
                options that decide the batches.
        """
        self._loop.load(state_dict)

    def summary(self) -> EpochSummary:
        """Return what was delivered of the current epoch."""
        return self._loop.summary()

    def statistics(self) -> WrappedStatistics:
        """Return what goes on now."""
        return WrappedStatistics(
            next_step=self._loop.position.step,
            epoch=self.epoch,
            summary=self.summary(),
            ready_steps=self._supply.ahead.steps,
            deaths=self._supply.deaths,
        )

    def explain(self) -> str:
        """Return where samples are made and what that rules out, for people."""
        return EXPLANATION

    def close(self) -> None:
        """End threads and processes; further loops are refused. May be called again."""
        self._finalizer()

    def __reduce__(self) -> NoReturn:
        raise CallerError(
            "a loader holds processes and cannot be pickled or sent to another process; make one "
            "in each process, with its rank and world"
        )

    def _batches(self, steps: Iterator[Gathered]) -> Iterator[Any]:
        """Hand over batches; the loader lives while this goes on, and no reference is kept."""
        yield from map(attrgetter("batch.value"), steps)


EXPLANATION = """\
Samples are made by the dataset's own code, in processes of this host. That code cannot leave it:
- agents and storage hosts prepare nothing, and nothing is shared with other jobs;
- nothing is known of what a sample will cost or read: it is neither started earlier for its cost
  nor split, and no bandwidth is reserved for it;
- a step is made by one process, so the first one takes as long as one process needs for it.
headrace.torch.Loader over the same files, with a Pipeline of ops, has none of these limits."""
"""What a wrapped dataset cannot have."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A job whose only source is the dataset."""

    spec: JobSpec
    schedule: Schedule


def _config(options: dict[str, Any]) -> LoaderConfig:
    """Return the options as a loader's; other than there, what is broken raises."""
    refuse_torch_options(options)
    for name in options:
        if name in _LOADERS_ONLY:
            raise ConfigError(
                f"{name!r} means nothing to a wrapped dataset: its code cannot leave this host, so "
                "agents do not make its samples. headrace.torch.Loader takes it"
            )
    own = [name for name in options if name not in OPTIONS]
    if own:
        raise ConfigError(f"unknown option {own[0]!r} of wrap; {key_hint(own[0], OPTIONS)}")
    place = {} if "rank" in options or "world" in options else rank_and_world()
    return config_of({"on_corrupt": "raise", "controller": "", **place, **options})


def _checked_workers(workers: int) -> int:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ConfigError(f"workers={workers!r} must be a number of processes, 0 or more")
    return workers


def _checked_method(method: StartMethod | None) -> StartMethod | None:
    if method is not None and method not in get_args(StartMethod):
        raise ConfigError(
            f"start_method={method!r} is unknown; choose {' or '.join(get_args(StartMethod))}"
        )
    return method


def _length(dataset: MapDataset) -> int:
    """Return the length of a map-style dataset.

    Raises:
        ConfigError: it is not map-style, or empty.
    """
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise ConfigError(
            f"{type(dataset).__qualname__} is not map-style: only a dataset with __getitem__ can "
            "be read in another order and resumed. headrace.torch.Loader reads files, tar shards, "
            "Parquet and more where they are"
        )
    if not hasattr(dataset, "__len__"):
        raise ConfigError(f"{type(dataset).__qualname__} has no __len__; give it one")
    if not (length := len(dataset)):
        raise ConfigError(f"{type(dataset).__qualname__} is empty")
    return length


def _job(recipe: Recipe, config: LoaderConfig, version: str) -> _Job:
    kind = type(recipe.dataset).__qualname__
    source = SourceSpec(
        url=f"dataset:{kind}",
        index_digest=name_digest(kind.encode(), version.encode()),
        samples=recipe.samples,
    )
    spec = JobSpec(
        sources=(source,),
        schedule=config.schedule(),
        pipeline="",
        on_corrupt=config.on_corrupt,
        run=config.run_name(),
    )
    return _Job(spec, Schedule(spec.schedule, spec.sources))
