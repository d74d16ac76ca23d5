"""The figures of one job as tables, the most important first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.analysis.figures import (
    Accelerators,
    Checkpoints,
    CutMove,
    Heat,
    JobFigures,
    Loading,
    Requests,
    Spread,
    Stragglers,
    Suspect,
)
from headrace.analysis.spreads import NS_PER_S
from headrace.analysis.telling import (
    LABELS,
    UNKNOWN,
    latency_of,
    per_rank_of,
    shortened,
    told_cost,
    told_mean,
    told_number,
    told_quantity,
    told_ranks,
)
from headrace.report.bars import bars
from headrace.report.blocks import Table
from headrace.report.units import bytes_, percent, seconds

SHOWN_FILES = 10
SHOWN_CUTS = 10
_BAR_LETTERS = 20
_OPERATIONS = 6


def job_blocks(job: JobFigures) -> Iterator[Table]:
    """Yield the tables of one job."""
    if job.accelerators is not None:
        yield idle_table(job.accelerators)
    yield from times_table(job)
    if job.loading is not None:
        yield from parts_table(job.loading)
        yield from counts_table(job.loading, _worked_s(job))
        if job.loading.stragglers is not None:
            yield from stragglers_table(job.loading.stragglers)
    yield from cuts_table(job.cuts)
    yield from checkpoints_table(job)
    if job.requests is not None:
        yield from sizes_table(job.requests)
        yield from operations_table(job.requests)
    yield from phases_table(job)
    yield from hottest_table(job.hottest)


def idle_table(found: Accelerators) -> Table:
    """Return why accelerators stood still."""
    whole_s = found.span_s * found.ranks
    rows = [
        (LABELS[cause], seconds(lost_s), percent(lost_s / whole_s if whole_s else 0.0))
        for cause, lost_s in found.by_cause_s.items()
        if lost_s
    ]
    return Table(
        title="Accelerators stood still",
        columns=("", "time", "share"),
        rows=(*rows, ("together", seconds(found.idle_s), percent(found.idle_share))),
        note="\n".join(_idle_notes(found)),
        emphasis=frozenset({2}),
    )


def times_table(job: JobFigures) -> Iterator[Table]:
    """Yield how long steps, loads, waits, checkpoints and requests took."""
    loading, requests = job.loading, job.requests
    spreads = {
        "step": job.step_s,
        f"loading of a {loading.unit if loading else 'batch'}": latency_of(loading),
        "wait for a batch": job.wait_s,
        "checkpoint read, a rank": per_rank_of(job.checkpoint_read),
        "checkpoint save, a rank": per_rank_of(job.checkpoint_save),
        "request to storage": requests.latency_s if requests else None,
        "open, stat, list": requests.metadata_s if requests else None,
    }
    yield from _spreads("Times", spreads, seconds, note=_overlap_note(job))


def parts_table(loading: Loading) -> Iterator[Table]:
    """Yield of what loading consists."""
    if loading.parts:
        yield Table(
            title="Loading consists of",
            columns=("", f"per {loading.unit}", "total", "share"),
            rows=tuple(
                (name, seconds(part.per_load_s), seconds(part.total_s), percent(part.share))
                for name, part in loading.parts.items()
            ),
            note="Parts of samples that were prepared at the same time are summed.",
            emphasis=frozenset({3}),
        )


def counts_table(loading: Loading, span_s: float) -> Iterator[Table]:
    """Yield the further numbers that loads tell."""
    if any(loading.counts.values()) and span_s:
        yield Table(
            title="Told by loads",
            columns=("", "total", "per second"),
            rows=tuple(
                (name, _teller(name)(total), _teller(name)(total / span_s))
                for name, total in loading.counts.items()
                if total
            ),
            note=_cpu(loading),
        )


def stragglers_table(found: Stragglers) -> Iterator[Table]:
    """Yield who is slower than others."""
    rows = [
        (f"{what} {shortened(one.name)}", *_suspect(one))
        for what, suspects in (
            ("host", found.hosts),
            ("samples", found.kinds),
            ("file", found.files),
        )
        for one in suspects
    ] or [*_slowest_host(found)]
    if rows:
        yield Table(
            title="Stragglers",
            columns=("", "a load", "others", "of the slowest percent"),
            rows=tuple(rows),
            note=_gap(found),
        )


def cuts_table(moves: Sequence[CutMove]) -> Iterator[Table]:
    """Yield when agents began to run other ops, and what a sample costs since."""
    if moves:
        yield Table(
            title="Agents run other ops",
            columns=("after", "samples", "ops", "agent", "trainer", "bytes", "network"),
            rows=tuple(map(_cut_move, moves[:SHOWN_CUTS])),
            note=_cuts_note(len(moves)),
        )


def checkpoints_table(job: JobFigures) -> Iterator[Table]:
    """Yield what reads and saves of checkpoints cost."""
    found = (("read", job.checkpoint_read), ("save", job.checkpoint_save))
    rows = tuple((name, *_checkpoints(one)) for name, one in found if one is not None)
    if rows:
        yield Table(
            title="Checkpoints",
            columns=(
                "",
                "times",
                "a rank",
                "longest",
                "slowest",
                "ranks waited",
                "bytes",
                "request",
            ),
            rows=rows,
            note="Ranks waited: for the slowest of their load or save, summed. Request: mean size.",
        )


def sizes_table(requests: Requests) -> Iterator[Table]:
    """Yield how large requests are and what their time went to."""
    spreads = {
        "read": requests.read_bytes,
        "write": requests.write_bytes,
        "sent by agents": requests.fetched_bytes,
    }
    yield from _spreads("Sizes of requests", spreads, bytes_, note=_requests_note(requests))


def operations_table(requests: Requests) -> Iterator[Table]:
    """Yield what storage was asked most often."""
    rows = tuple((name, f"{number:,}") for name, number in requests.operations.items())
    if rows:
        yield Table(title="Asked of storage", columns=("", "times"), rows=rows[:_OPERATIONS])


def phases_table(job: JobFigures) -> Iterator[Table]:
    """Yield the phases of a job beside each other."""
    if len(job.phases) > 1:
        yield Table(
            title="Phases",
            columns=("", "time", "loading", "P99", "requests", "size", "request", "round trips"),
            rows=tuple(
                (
                    phase.phase,
                    seconds(phase.seconds),
                    told_mean(latency_of(phase.loading)),
                    seconds(phase.loading.latency_s.p99) if phase.loading else UNKNOWN,
                    *_phase_requests(phase.requests),
                )
                for phase in job.phases
            ),
        )


def hottest_table(files: Sequence[Heat]) -> Iterator[Table]:
    """Yield the files that were read most."""
    if files:
        yield Table(
            title="Hottest files",
            columns=("file", "reads", "bytes", "ranks", "over time"),
            rows=tuple(
                (
                    shortened(one.file),
                    f"{one.reads:,}",
                    UNKNOWN if one.bytes is None else bytes_(one.bytes),
                    told_number(one.ranks),
                    bars(_folded(one.over_time)),
                )
                for one in files[:SHOWN_FILES]
            ),
            drawn=frozenset({4}),
        )


def _spreads(
    title: str, spreads: Mapping[str, Spread | None], told: Callable[[float], str], *, note: str
) -> Iterator[Table]:
    rows = tuple(
        (
            name,
            f"{one.count:,}",
            *map(told, (one.mean, one.p50, one.p90, one.p99, one.most)),
            told(one.total),
        )
        for name, one in spreads.items()
        if one is not None
    )
    if rows:
        columns = ("", "number", "mean", "P50", "P90", "P99", "most", "total")
        yield Table(title=title, columns=columns, rows=rows, note=note)


def _cpu(loading: Loading) -> str:
    if loading.cpu_s is None:
        return ""
    samples = loading.counts.get("samples")
    each = f", {seconds(loading.cpu_s / samples)} a sample" if samples else ""
    return f"Loads took {seconds(loading.cpu_s)} of CPU where they were recorded{each}."


def _worked_s(job: JobFigures) -> float:
    """Return how long ranks were at work; a trace may begin with imports long before [s]."""
    return job.span_s if job.accelerators is None else job.accelerators.span_s


def _teller(name: str) -> Callable[[float], str]:
    """Return how a number is told whose unit is in its name."""
    if name.endswith("_ns"):
        return lambda value: seconds(value / NS_PER_S)
    return bytes_ if "bytes" in name else told_quantity


def _overlap_note(job: JobFigures) -> str:
    if job.overlap is None:
        return ""
    return (
        f"{percent(job.overlap.hidden_share)} of the time in which data was read or prepared lay "
        "behind compute."
    )


def _requests_note(requests: Requests) -> str:
    told = []
    if requests.round_trip_share is not None:
        told.append(f"{percent(requests.round_trip_share)} of requests' time is round trips")
    if requests.bytes_per_s is not None:
        told.append(f"{bytes_(requests.bytes_per_s)}/s while any was under way")
    if requests.files is not None:
        told.append(f"{requests.files:,} files")
    return ", ".join(told)


def _phase_requests(requests: Requests | None) -> tuple[str, str, str, str]:
    if requests is None or requests.latency_s is None:
        return (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    share, size = requests.round_trip_share, requests.read_bytes
    return (
        f"{requests.latency_s.count:,}",
        UNKNOWN if size is None else bytes_(size.mean),
        seconds(requests.latency_s.mean),
        UNKNOWN if share is None else percent(share),
    )


def _checkpoints(found: Checkpoints) -> tuple[str, ...]:
    return (
        f"{found.occasions:,}",
        seconds(found.per_rank_s.mean),
        seconds(found.per_rank_s.most),
        UNKNOWN if found.slowest_rank is None else f"rank {found.slowest_rank}",
        UNKNOWN if found.barrier_s is None else seconds(found.barrier_s),
        UNKNOWN if found.bytes is None else bytes_(found.bytes),
        UNKNOWN if found.mean_request_bytes is None else bytes_(found.mean_request_bytes),
    )


def _suspect(one: Suspect) -> tuple[str, str, str]:
    return seconds(one.mean_s), seconds(one.others_mean_s), percent(one.share)


def _idle_notes(found: Accelerators) -> Iterator[str]:
    per_day = found.idle_share * found.ranks * 24
    hours = told_quantity(found.lost_hours)
    yield (
        f"Of {told_ranks(found.ranks)} in {seconds(found.span_s)}: {hours} accelerator hours; "
        f"{told_quantity(per_day)} a day at that rate."
    )
    if found.cost is not None:
        yield f"They cost {told_cost(found.cost)} at the price given."
    if found.compute_s is not None:
        yield f"Accelerators computed for {seconds(found.compute_s)}."


def _slowest_host(found: Stragglers) -> Iterator[tuple[str, str, str, str]]:
    if found.slowest_host is not None and found.slowest_mean_s is not None:
        name = f"host {shortened(found.slowest_host)}"
        yield name, seconds(found.slowest_mean_s), seconds(found.mean_s or 0.0), UNKNOWN


def _cut_move(move: CutMove) -> tuple[str, ...]:
    link = move.link_bytes_per_s
    return (
        seconds(move.at_s),
        move.samples,
        f"{told_number(move.ops_before)} → {told_number(move.ops)}",
        UNKNOWN if move.agent_s is None else seconds(move.agent_s),
        UNKNOWN if move.trainer_s is None else seconds(move.trainer_s),
        UNKNOWN if move.sample_bytes is None else bytes_(move.sample_bytes),
        UNKNOWN if link is None else f"{bytes_(link)}/s",
    )


def _cuts_note(moves: int) -> str:
    further = f" {moves - SHOWN_CUTS:,} later moves are not shown." if moves > SHOWN_CUTS else ""
    return f"Agent, trainer: CPU for a sample. Bytes: of a sample on the network.{further}"


def _gap(found: Stragglers) -> str:
    if found.slowest_host is None or found.slowest_mean_s is None:
        return ""
    return (
        f"The slowest host is {shortened(found.slowest_host)}: {seconds(found.slowest_mean_s)} a "
        f"load, {seconds(found.gap_s or 0.0)} more than the mean of hosts."
    )


def _folded(counts: Sequence[int]) -> tuple[int, ...]:
    """Return the counts of fewer, longer bins."""
    width = -(-len(counts) // _BAR_LETTERS) or 1
    return tuple(sum(counts[begin : begin + width]) for begin in range(0, len(counts), width))
