"""What is recorded of each step of a training loop, and as which Arrow columns."""

from __future__ import annotations

import msgspec
import pyarrow as pa

SCHEMA_VERSION = "1"
_ARROW_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one rank, from one request for a batch to the next."""

    job: str
    """The job's id."""

    rank: int
    step: int
    epoch: int

    begin_s: float
    """When the batch was asked for [s since 1970, UTC], so that hosts can be laid side by side."""

    step_s: float
    """Until the next batch was asked for: waiting, then training [s]."""

    wait_s: float
    """How long the training loop stood still for the batch: the stall [s]."""

    load_s: float = 0.0
    """From the beginning of the batch's preparation to its end, in the background [s]."""

    read_s: float = 0.0
    """Time spent reading storage, summed over samples and places [s]."""

    transform_s: float = 0.0
    """Time spent in the pipeline's ops, summed over samples and places [s]."""

    overhead_s: float = 0.0
    """Time of the loader's own that is neither of both: queueing, sockets, assembling [s]."""

    trainer_cpu_s: float = 0.0
    """CPU that loading took on the trainer in this step [s]."""

    bytes_wire: int = 0
    """Received from agents [bytes]."""

    bytes_storage: int = 0
    """Read from storage by the trainer itself [bytes]."""

    bytes_batch: int = 0
    """Size of the batch that the loop got [bytes]."""

    samples: int = 0
    """Samples in the batch; the counts below say where they came from and may overlap."""

    samples_tensor: int = 0
    """Transformed by an agent."""

    samples_raw: int = 0
    """Sent raw by an agent, transformed by the trainer."""

    samples_hedged: int = 0
    """Late at their agent, so that they were asked for elsewhere as well."""

    samples_local: int = 0
    """Read from storage and transformed by the trainer alone."""

    samples_substituted: int = 0
    """Corrupt, and replaced by another."""

    queue_batches: int = 0
    """Batches that lay ready when this one was asked for."""

    queue_bytes: int = 0
    """Memory that batches ready or in preparation held then [bytes]."""


FIELDS: tuple[str, ...] = StepRecord.__struct_fields__
"""Names of all columns, in their order."""


def arrow_schema() -> pa.Schema:
    """Return the columns of a step trace; units are in the names."""
    types = StepRecord.__annotations__
    columns = [pa.field(name, _ARROW_TYPES[types[name]], nullable=False) for name in FIELDS]
    return pa.schema(columns, metadata={"headrace.steps": SCHEMA_VERSION})
