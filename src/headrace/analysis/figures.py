"""All that an analysis finds in a trace, as plain values; ``--json`` writes exactly these.

What the trace cannot tell is None, never zero.
"""

from __future__ import annotations

import msgspec

NO_JOB = "-"
"""What a job is called that the trace does not name."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all of them."""


class Spread(Figures, frozen=True, kw_only=True):
    """How a quantity is spread; the unit is in the name of the field that holds it."""

    count: int
    total: float
    mean: float
    p50: float
    p90: float
    p99: float
    most: float
    curve: tuple[float, ...] = ()
    """Quantiles at 0, 1, …, 100 %, where the whole distribution is worth a drawing."""


class Part(Figures, frozen=True, kw_only=True):
    """One part of loading."""

    total_s: float
    """Over all loads; parts of samples that overlapped are summed [s]."""

    share: float
    """Of the sum of all parts, 0 to 1."""

    per_load_s: float
    """Mean over loads [s]."""


class Suspect(Figures, frozen=True, kw_only=True):
    """A host, file or kind of sample that makes loads slower than others."""

    name: str
    mean_s: float
    """Of its loads [s]."""

    others_mean_s: float
    share: float
    """Of the slowest percent of loads that it is in, 0 to 1."""


class Stragglers(Figures, frozen=True, kw_only=True):
    """What makes loads slow."""

    slowest_host: str | None = None
    """None, and so are the next three, where the trace does not tell two hosts apart."""

    slowest_mean_s: float | None = None
    """Mean latency of its loads [s]."""

    mean_s: float | None = None
    """Mean over hosts of their mean loading latency [s]."""

    gap_s: float | None = None
    """How far the slowest host is from that [s]."""

    hosts: tuple[Suspect, ...] = ()
    files: tuple[Suspect, ...] = ()
    kinds: tuple[Suspect, ...] = ()
    """Of samples, by the suffix of their file or name."""


class Loading(Figures, frozen=True, kw_only=True):
    """Loading of batches, or of samples where the trace tells no batches."""

    unit: str
    """``batch`` or ``sample``."""

    latency_s: Spread
    parts: dict[str, Part] = {}
    """By kind of part."""

    stragglers: Stragglers | None = None
    cpu_s: float | None = None
    """CPU that loads took where they were recorded [s]."""

    counts: dict[str, int] = {}
    """Further numbers that loads tell (``samples``, ``bytes_wire``), summed; the unit is in the
    name. Levels of queues (``queue_…``) are left out: their sum means nothing."""


class Requests(Figures, frozen=True, kw_only=True):
    """Requests to storage."""

    read_bytes: Spread | None = None
    """Size of each read [bytes]."""

    write_bytes: Spread | None = None
    latency_s: Spread | None = None
    metadata_s: Spread | None = None
    """Of opens, stats and lists [s]."""

    round_trip_share: float | None = None
    """Share of requests' time that is the latency of a request rather than its bytes."""

    bytes_per_s: float | None = None
    """While at least one request was under way [bytes/s]."""

    files: int | None = None
    """That were read or written, of those that fit into memory; ``unknown`` says if more were."""

    operations: dict[str, int] = {}
    """Requests and questions about files by what they are called, the most frequent first."""

    fetched_bytes: Spread | None = None
    """Size of each answer that a rank got of an agent, where agents' traces tell what they read for
    them; else these are among the reads [bytes]."""


class Checkpoints(Figures, frozen=True, kw_only=True):
    """Reads, or saves, of checkpoints."""

    events: int
    """As they were recorded; several may be of one load or save."""

    occasions: int
    """Loads or saves of the job, by all of its ranks together."""

    per_rank_s: Spread
    """Time of one rank in one load or save, from its first event to the end of its last [s]."""

    slowest_rank: int | None = None
    barrier_s: float | None = None
    """Rank seconds that ranks waited for the slowest of their load or save [s]."""

    bytes: int | None = None
    mean_request_bytes: float | None = None
    """Over events that tell how many requests they made (``count``, or ``requests``), else, of
    reads, over the requests for the files that the events name [bytes]."""


class Accelerators(Figures, frozen=True, kw_only=True):
    """Whether accelerators worked."""

    ranks: int
    span_s: float
    """Mean over ranks [s]."""

    idle_s: float
    """Sum over ranks: for data, for checkpoints, for other ranks [s]."""

    idle_share: float
    compute_s: float | None = None
    """Sum over ranks; None where compute was not recorded itself [s]."""

    by_cause_s: dict[str, float] = {}
    """``data``, ``checkpoint_read``, ``checkpoint_save``, ``barrier`` [s]."""

    lost_hours: float = 0.0
    """Accelerator hours."""

    cost: float | None = None
    """At the price given, in its currency."""


class Timeline(Figures, frozen=True, kw_only=True):
    """What ranks were at over time."""

    begin_s: float
    """Of the first bin, since the job's first event [s]."""

    bin_s: float
    """Length of one bin [s]."""

    ranks: tuple[str, ...]
    """Of the rows; evenly chosen where there are too many to show."""

    shares: dict[str, tuple[str, ...]]
    """Activity → a row for each rank, a digit for each bin: tenths of it, 9 is all of it."""


class CutMove(Figures, frozen=True, kw_only=True):
    """Agents began to run other ops on a kind of sample; costs are as they were known then."""

    at_s: float
    """Since the job's first event [s]."""

    samples: str
    """Their kind."""

    ops_before: int | None
    ops: int | None
    """Leading ops that agents run, before and from then on."""

    sample_bytes: int | None
    """What crosses the network for a sample from then on [bytes]."""

    agent_s: float | None
    """CPU of an agent for it [s]."""

    trainer_s: float | None
    """CPU of the trainer for it [s]."""

    link_bytes_per_s: int | None
    """Bandwidth of the network; None also where no sample was ever waited for [bytes/s]."""


class Overlap(Figures, frozen=True, kw_only=True):
    """I/O and compute at the same time, per rank, summed."""

    io_s: float
    compute_s: float
    both_s: float
    hidden_share: float
    """Part of I/O behind compute, 0 to 1."""


class Heat(Figures, frozen=True, kw_only=True):
    """Reads of one file over time."""

    file: str
    reads: int
    bytes: int | None
    first_s: float
    """Since the trace began [s]."""

    last_s: float
    ranks: int | None = None
    """Ranks, or processes, that read it; None where some of them are not told."""

    over_time: tuple[int, ...] = ()
    """Reads in each 60th of the trace."""


class PhaseFigures(Figures, frozen=True, kw_only=True):
    """One phase of a job."""

    phase: str
    seconds: float
    """From its first event to its last, mean over ranks [s]."""

    wait_s: Spread | None = None
    """How long the loop stood still for each batch [s]."""

    loading: Loading | None = None
    requests: Requests | None = None


class JobFigures(Figures, frozen=True, kw_only=True):
    """One job."""

    job: str
    """:data:`NO_JOB` where the trace names none."""

    ranks: int | None
    hosts: int | None
    events: int
    span_s: float
    longest_pause_s: float = 0.0
    """Longest time in it in which no event of the job was under way [s]."""

    steps: int | None = None
    step_s: Spread | None = None
    wait_s: Spread | None = None
    """How long the loop stood still for each batch [s]."""

    loading: Loading | None = None
    requests: Requests | None = None
    checkpoint_read: Checkpoints | None = None
    checkpoint_save: Checkpoints | None = None
    accelerators: Accelerators | None = None
    overlap: Overlap | None = None
    timeline: Timeline | None = None
    cuts: tuple[CutMove, ...] = ()
    phases: tuple[PhaseFigures, ...] = ()
    hottest: tuple[Heat, ...] = ()


class Finding(Figures, frozen=True, kw_only=True):
    """A cause of lost time."""

    cause: str
    """One of :class:`headrace.analysis.causes.Cause`."""

    job: str
    lost_s: float
    """Accelerator seconds, or seconds of waiting, that it took [s]."""

    lost_share: float
    """Of the ranks' time, 0 to 1."""

    evidence: tuple[str, ...]
    """What in the trace says so, each with its number."""

    answer: str
    """What headrace has against it."""

    command: str
    """Turns that on."""

    gain_at_most_s: float | None = None
    """Of the lost time, what goes away with the cause at most, by this trace: ranks wait for the
    rest of loading still [s]."""

    expected_gain: float | None = None
    """Share of the lost time that it takes away, 0 to 1; where it comes from is in ``basis``."""

    basis: str = ""
    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    """Where these are to blame, and not all of their host."""

    files: tuple[str, ...] = ()
    """Each of a fifth or more of the time of reading, while the cause took time; of a straggler,
    those that the slowest loads have in common."""


class Analysis(Figures, frozen=True, kw_only=True):
    """Everything found in one trace."""

    format: str
    """Of the trace: ``headrace``, ``DFTracer``, …; several are joined by ``+``."""

    events: int
    span_s: float
    jobs: tuple[JobFigures, ...]
    findings: tuple[Finding, ...] = ()
    unknown: dict[str, str] = {}
    """What the format cannot tell → why."""

    problems: tuple[str, ...] = ()
    """Damage that was passed over; the figures are then of a part."""

    further_problems: int = 0

    lost_events: int = 0
    """That were recorded and are missing: there was no room for them, or no time to write them."""

    left_out: tuple[str, ...] = ()
    """Files that are no traces, beside those that are."""

    further_left_out: int = 0
    relative_times: bool = False
    """Whether times count from an arbitrary moment, so that hosts cannot be laid side by side."""

    @property
    def is_partial(self) -> bool:
        """Whether the figures are of a part of what was recorded."""
        return bool(self.problems) or self.lost_events > 0
