"""A model of a job's workload: how long what takes and how large it is, in a small TOML file.

Quantities of the same rank and step are linked through normal scores (a Gaussian copula): whatever
its own distribution, a quantity has a score that is a weighted sum of one of its host, one of its
step, and one of its own. A linked quantity shares part of its score with another.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from headrace.analysis.workload.distributions import Curve, Distribution, Positive, Share
from headrace.analysis.workload.normal import normal_scores
from headrace.core.errors import CallerError, ConfigError
from headrace.core.keys import key_hint
from headrace.report.toml import parse_toml, read_toml
from headrace.trace.events import PARTS

Count: TypeAlias = Annotated[int, Meta(ge=1, le=10**9)]
Correlation: TypeAlias = Annotated[float, Meta(ge=-1, le=1)]

LONGEST_NAME = 200
"""Of a model [letters]."""

SHIPPED = ("T-S", "T-L", "MM-S", "MM-L", "MM-O")
"""Names of the models of the five reference workloads."""


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all parts of a model."""


class Quantity(Values, frozen=True, kw_only=True):
    """A time of one rank in one step [s]."""

    distribution: Distribution
    """Of the values that are not zero [s]."""

    zero_share: Share = 0.0
    """Of values that are zero."""

    host_share: Share = 0.0
    """Part of the variance that a host's ranks share, at all times."""

    step_share: Share = 0.0
    """Part of the variance that all ranks share in one step."""

    autocorrelation: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Of what all ranks share in a step with that of the next step."""

    def __post_init__(self) -> None:
        if self.host_share + self.step_share > 1:
            raise ConfigError(
                f"host_share {self.host_share:g} and step_share {self.step_share:g} are more than "
                "all of the variance; lower one"
            )

    @property
    def mean(self) -> float:
        """Return the mean of all values, zeros included [s]."""
        return self.distribution.average() * (1.0 - self.zero_share)

    def quantiles(self, levels: tuple[float, ...]) -> list[float]:
        """Return the values that are not exceeded with each probability [s]."""
        curve = Curve(self.distribution, self.zero_share)
        values: list[float] = curve(normal_scores(np.array(levels))).tolist()
        return values


class Linked(Values, frozen=True, kw_only=True):
    """A quantity that goes along with another one."""

    distribution: Distribution
    """[s] or [bytes], as the key says under which it stands."""

    correlation: Correlation = 0.0
    """Of its normal scores with those of the quantity that it is linked to."""


class Load(Values, frozen=True, kw_only=True):
    """How batches, or samples, are prepared."""

    seconds: Quantity
    """From the first work on it to the last, over all hosts, stragglers included."""

    unit: Literal["batch", "sample"] = "batch"
    """What one load prepares."""

    per_step: Positive = 1.0
    """Mean number of loads of a rank in a step."""

    stragglers: Annotated[tuple[Annotated[float, Meta(gt=1)], ...], Meta(max_length=16)] = ()
    """For each host that straggles: its mean, as a multiple of the mean over all hosts."""

    bytes: Linked | None = None
    """Linked to the load's time."""

    parts: dict[str, Linked] = {}
    """Seconds of each part of a load, linked to the load's time."""

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise ConfigError(f"load.parts: unknown part {part!r}; {key_hint(part, PARTS)}")


class Files(Values, frozen=True, kw_only=True):
    """Which files requests read."""

    count: Count

    zipf: Annotated[float, Meta(ge=0, le=5)] = 0.0
    """The k-th most read file is read in proportion to ``k ** -zipf``; 0: all alike."""

    suffix: Annotated[str, Meta(pattern=r"^(\.[A-Za-z0-9]+)?$")] = ""
    """Of most files."""


class Requests(Values, frozen=True, kw_only=True):
    """Reads of storage while a job iterates."""

    per_step: Positive
    """Mean number of a rank in a step."""

    seconds: Linked
    """Linked to the request's size."""

    bytes: Distribution | None = None
    files: Files | None = None


class Transfer(Values, frozen=True, kw_only=True):
    """What many ranks do at once, once or every so many steps."""

    seconds: Quantity
    """Of one rank; ``step_share`` is what all ranks share in one occurrence."""

    bytes: Distribution | None = None
    """Of one rank."""

    period_steps: Annotated[int, Meta(ge=0)] = 0
    """Steps between two occurrences; 0: once, before the first step."""

    blocks: bool = True
    """Whether the next step begins only when all ranks have finished."""

    ranks: Count | None = None
    """That take part, where they are of another job; else those of this one."""


TRANSFERS = ("checkpoint_read", "checkpoint_save", "evaluation", "logits_write")
"""Fields of :class:`Model` that hold a :class:`Transfer`."""


class Model(Values, frozen=True, kw_only=True):
    """A job's workload."""

    version: Literal[1]
    """Of this format."""

    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    title: str = ""
    """What kind of job it is, for people."""

    source: str = ""
    """Where the figures come from."""

    ranks: Count
    ranks_per_host: Count = 8
    steps: Count
    """That a trace of the model has, if nobody asks for another number."""

    steps_per_epoch: Annotated[int, Meta(ge=0)] = 0
    """0: not known."""

    step: Quantity
    """From one request for a batch to the next, without a checkpoint's save between."""

    wait: Quantity | None = None
    """How long the loop stood still for its batch, as a part of the step."""

    load: Load | None = None
    requests: Requests | None = None
    checkpoint_read: Transfer | None = None
    checkpoint_save: Transfer | None = None
    evaluation: Transfer | None = None
    """Reads of saved checkpoints by a companion evaluation."""

    logits_write: Transfer | None = None

    def __post_init__(self) -> None:
        for name in ("checkpoint_save", "evaluation", "logits_write"):
            transfer: Transfer | None = getattr(self, name)
            if transfer is not None and not transfer.period_steps:
                raise ConfigError(f"{name}.period_steps is not given; say every how many steps")
        if self.evaluation is not None and self.evaluation.blocks:
            raise ConfigError("evaluation.blocks: training does not wait for it; set it to false")

    def transfers(self) -> dict[str, Transfer]:
        """Return those that there are, by name."""
        found: dict[str, Transfer | None] = {name: getattr(self, name) for name in TRANSFERS}
        return {name: one for name, one in found.items() if one is not None}


def shipped_models() -> tuple[Model, ...]:
    """Return the models of the five reference workloads."""
    return tuple(map(_shipped, SHIPPED))


def find_model(named: str) -> Model:
    """Return a model by its file, or by its name if it is shipped.

    Raises:
        NotFoundError: there is no such file.
        CallerError: no model has the name, or the file is no TOML.
        ConfigError: the file is not that of a model.
    """
    if named.upper() in SHIPPED:
        return _shipped(named.upper())
    path = Path(named)
    if not path.suffix and not path.exists():
        hint = key_hint(named.upper(), SHIPPED).replace("keys", "those shipped")
        raise CallerError(f"no model {named!r}; {hint}, or name a TOML file")
    return read_toml(path, Model)


def _shipped(name: str) -> Model:
    text = (files("headrace.analysis.workload") / "models" / f"{name}.toml").read_text("utf-8")
    return parse_toml(text, Model, source=f"{name}.toml")
