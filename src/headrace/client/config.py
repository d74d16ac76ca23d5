"""What a loader can be told, with its defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from headrace.client.endpoints import find_controller, find_token
from headrace.client.memory import Allocate, plain
from headrace.client.registry import FileRegistry, FixedRegistry, Registry, is_registry_file
from headrace.client.torchoptions import refuse_torch_options
from headrace.core.errors import ConfigError
from headrace.core.job import Order, ScheduleSpec, Tail
from headrace.core.keys import key_hint
from headrace.core.run import named_run
from headrace.transform.pipeline import Pipeline
from headrace.wire.endpoint import Endpoint

OnCorrupt = Literal["substitute", "drop-from-batch", "raise"]

_CHOICES = {"order": get_args(Order), "tail": get_args(Tail), "on_corrupt": get_args(OnCorrupt)}
_INTEGERS = (
    "batch_size",
    "seed",
    "block",
    "mix",
    "epoch_samples",
    "rank",
    "world",
    "workers",
    "prefetch_steps",
    "prefetch_bytes",
    "check_every",
)

_KINDS: dict[str, Any] = {
    "token": str | None,
    "controller": str | None,
    "job_title": str,
    "run": str | None,
    "storage_tier": str | None,
    "ca_file": str | Path | None,
    "trace": str | Path | bool,
    "allocate": Callable,
    "index": str | os.PathLike | Mapping | None,
}
_KIND_NAMES = {
    "token": "text or None",
    "controller": "an address or None",
    "job_title": "text",
    "run": "text or None",
    "storage_tier": "a tier's name or None",
    "ca_file": "a path or None",
    "trace": "a folder, True or False",
    "allocate": "a function that returns memory",
    "index": "a folder, a mapping from datasets to folders, or None",
}

Indexes: TypeAlias = "str | os.PathLike[str] | Mapping[Any, str | os.PathLike[str]] | None"
"""Where indexes lie: of the only dataset, or of each that has one elsewhere."""

LONGEST_NAME = 256
"""Letters of a tier's name, and of a job's title, that a controller takes."""

CONNECT_S = 1.0
ANSWER_S = 2.0
"""Longest waits for the controller; nothing of the loop waits with them [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderConfig:
    """Everything but the datasets."""

    batch_size: int
    """Samples in one global batch, over all ranks: what the optimiser sees as one step."""

    pipeline: Pipeline = field(default_factory=lambda: Pipeline([]))
    """What is done to each sample; nothing by default, so that batches hold encoded bytes."""

    index: Indexes = None
    """Folder, or its URL, that ``headrace index --out`` put the index into; of several datasets a
    mapping from each; None is where the files are."""

    seed: int = 0
    """Decides the order and every sample's randomness."""

    order: Order = "shuffle"
    """``shuffle`` over everything; ``block`` for disks that read fast in sequence only;
    ``sequential``."""

    block: int = 1024
    """Samples per block in ``block`` order."""

    mix: int = 8
    """Blocks that are shuffled into each other in ``block`` order."""

    tail: Tail = "drop"
    """An epoch's last incomplete batch: ``drop``, deliver ``short``, or ``pad`` it."""

    epoch_samples: int | None = None
    """Length of one epoch [samples]; None is the size of all datasets together."""

    on_corrupt: OnCorrupt = "substitute"
    """What takes the place of a sample that cannot be decoded."""

    rank: int = 0
    """This process's number among ``world``."""

    world: int = 1
    """Processes that share each global batch."""

    agents: tuple[str, ...] | str = ()
    """Addresses of the agents, or path or URL of a TOML file that lists them and may change
    meanwhile; none: everything is made in this process."""

    token: str | None = field(default=None, repr=False)
    """The agents' token; None reads the environment variable ``HEADRACE_TOKEN``."""

    ca_file: str | None = None
    """Certificates to trust for ``https`` agents, PEM."""

    controller: str | None = None
    """Address of the controller that each iteration's health is reported to; None reads the
    environment variable ``HEADRACE_CONTROLLER``, and an empty text means none."""

    job_title: str = ""
    """What people call the job where its controller shows it."""

    run: str | None = None
    """What tells this run from others of the same job, equal on all ranks; None is what the
    environment says (``HEADRACE_RUN``, else torchrun's or Slurm's number), and an empty text means
    nothing does: agents and controller take such runs for one."""

    job_weight: float = 1.0
    """The job's part of bandwidth that others need as well, relative to theirs."""

    storage_tier: str | None = None
    """Tier, as the controller names it, of the storage that this process reads by itself; None is
    the one that agents read most from, or ``hdd`` where none says."""

    require_agents: bool = False
    """Fail at the start unless every agent answers; otherwise one warning, and on without it."""

    workers: int | None = None
    """Threads that decode here; None is this process's part of the CPUs that it may use, which
    ranks on one host share evenly (``LOCAL_WORLD_SIZE``, as torchrun sets it)."""

    prefetch_steps: int = 8
    """Steps that may be ready or in the making."""

    prefetch_bytes: int = 1 << 30
    """Memory that they may hold [bytes]."""

    patience_s: float = 0.5
    """Time that an agent has for a sample at least before it sends raw bytes [s]."""

    grace_s: float = 0.5
    """Time on top before a sample that did not come is made here [s]."""

    check_every: int = 1000
    """One in so many samples made by agents is made again here and compared; 0 for none."""

    timeout_s: float = 600.0
    """Longest wait for one batch, beside the time that the job's quota holds it back [s]."""

    trace: str | Path | bool = True
    """Folder that events are recorded in; True is this run's, below ``HEADRACE_TRACE`` or the
    user's cache, unless that variable says ``off``; False is none."""

    allocate: Allocate = plain
    """Gives the memory that batches lie in; any but the default is asked anew for each array."""

    def __post_init__(self) -> None:
        if not isinstance(self.pipeline, Pipeline):
            raise ConfigError(
                f"pipeline={self.pipeline!r} is no Pipeline; write headrace.Pipeline([op, …])"
            )
        for name in _INTEGERS:
            _require_integer(name, getattr(self, name))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"{name}={getattr(self, name)!r} is unknown; choose {' or '.join(choices)}"
                )
        if not 0 <= self.rank < self.world:
            raise ConfigError(f"rank={self.rank} must lie in [0, world={self.world})")
        for name in ("prefetch_steps", "prefetch_bytes", "workers", "batch_size"):
            _require_at_least(name, getattr(self, name), 1)
        _require_at_least("check_every", self.check_every, 0)
        for name in ("patience_s", "grace_s", "timeout_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"{name}={value!r} must be more than 0 seconds")
        _require_weight(self.job_weight)
        for name, kinds in _KINDS.items():
            if not isinstance(getattr(self, name), kinds):
                raise ConfigError(f"{name}={getattr(self, name)!r} must be {_KIND_NAMES[name]}")
        if self.storage_tier is not None and not _is_name(self.storage_tier):
            raise ConfigError(
                f"storage_tier={self.storage_tier!r} must be 1 to {LONGEST_NAME} printable "
                "characters, as the controller names the tier"
            )
        if self.job_title and not _is_name(self.job_title):
            raise ConfigError(
                f"job_title={self.job_title!r} must be {LONGEST_NAME} printable characters at "
                "most; the controller shows it to people"
            )
        self.schedule()
        self.endpoints()
        self.controller_endpoint()

    def schedule(self) -> ScheduleSpec:
        """Return the part that decides the order."""
        return ScheduleSpec(
            seed=self.seed,
            batch_size=self.batch_size,
            order=self.order,
            block=self.block,
            mix=self.mix,
            tail=self.tail,
            epoch_samples=self.epoch_samples,
        )

    def run_name(self) -> str:
        """Return what tells this run from others of the same job; empty: nothing does."""
        return named_run(os.environ) if self.run is None else self.run

    def registry(self) -> Registry:
        """Return who knows where the agents listen and how to be let in."""
        token = find_token(self.token)
        if isinstance(self.agents, str):
            return FileRegistry(self.agents, token=token, ca_file=self.ca_file)
        return FixedRegistry(
            [
                Endpoint(address=address, token=token, ca_file=self.ca_file)
                for address in self.agents
            ]
        )

    def controller_endpoint(self) -> Endpoint | None:
        """Return where the controller listens; None: there is none."""
        found = find_controller(self.controller, token=self.token, ca_file=self.ca_file)
        if found is None:
            return None
        return replace(found, connect_timeout_s=CONNECT_S, read_timeout_s=ANSWER_S)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return where the agents listen now.

        Raises:
            HeadraceError: the file that lists them cannot be read.
        """
        return tuple(agent.endpoint for agent in self.registry().look())

    def ranks_here(self) -> int:
        """Return the number of the job's ranks on this host, as torchrun tells it."""
        said = os.environ.get("LOCAL_WORLD_SIZE", "1")
        return min(max(int(said), 1), self.world) if said.isdigit() else 1

    def threads(self) -> int:
        """Return the number of decoding threads."""
        return self.workers or max(1, len(os.sched_getaffinity(0)) // self.ranks_here())


def config_of(options: dict[str, Any]) -> LoaderConfig:
    """Return the configuration that keyword arguments name.

    Raises:
        ConfigError: an unknown option (the nearest known one is named), a wrong value, or no
            batch size.
    """
    refuse_torch_options(options)
    known = [item.name for item in fields(LoaderConfig)]
    for name in options:
        if name not in known:
            raise ConfigError(f"unknown option {name!r} of a loader; {key_hint(name, known)}")
    if "batch_size" not in options:
        raise ConfigError("a loader needs batch_size, the samples of one global batch")
    agents = options.get("agents", ())
    agents = os.fspath(agents) if isinstance(agents, os.PathLike) else agents
    if is_registry_file(agents):
        return LoaderConfig(**{**options, "agents": agents})
    agents = (agents,) if isinstance(agents, str) else agents
    if not isinstance(agents, list | tuple) or not all(isinstance(item, str) for item in agents):
        raise ConfigError(
            f"agents={agents!r} must be an address, a list of addresses, or a TOML file"
        )
    return LoaderConfig(**{**options, "agents": tuple(agents)})


def _require_integer(name: str, value: object) -> None:
    optional = name in ("epoch_samples", "workers")
    if isinstance(value, bool) or not (isinstance(value, int) or (optional and value is None)):
        raise ConfigError(f"{name}={value!r} must be an int, not {type(value).__name__}")


def _is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def _require_weight(weight: object) -> None:
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not 0 < weight < float("inf"):  # type: ignore[operator]
        raise ConfigError(f"job_weight={weight!r} must be a positive number")


def _require_at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ConfigError(f"{name}={value} must be at least {least}")
