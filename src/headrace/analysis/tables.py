"""An analysis as tables and facts for people, the most important first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.analysis.figures import (
    NO_JOB,
    Accelerators,
    Analysis,
    Checkpoints,
    Finding,
    Heat,
    JobFigures,
    Loading,
    Requests,
    Spread,
    Stragglers,
    Suspect,
)
from headrace.analysis.spreads import NS_PER_S
from headrace.report.bars import bars
from headrace.report.blocks import Facts, Table
from headrace.report.printable import printable
from headrace.report.units import bytes_, percent, seconds, significant

SHOWN_JOBS = 10
"""Jobs of the table that compares them; figures have all."""

SHOWN_FILES = 10
_LONGEST_NAME = 44
_BAR_LETTERS = 20
_OPERATIONS = 6

LABELS = {
    "data": "waiting for data",
    "checkpoint_read": "reading checkpoints",
    "checkpoint_save": "saving checkpoints",
    "barrier": "waiting for other ranks",
    "compute": "computing",
}
"""How causes of idle time, and activities of ranks, are called."""

UNKNOWN = "–"


def first_line(analysis: Analysis) -> str:
    """Return what was analysed in one line, which says first if it is only a part."""
    jobs = len(analysis.jobs)
    told = (
        analysis.format,
        f"{analysis.events:,} events in {seconds(analysis.span_s)}",
        f"{jobs} jobs" if jobs > 1 else _named(analysis.jobs[0]),
    )
    return ("PARTIAL: " if analysis.is_partial else "") + " · ".join(told)


def blocks(analysis: Analysis) -> Iterator[Table | Facts]:
    """Yield all tables and facts of an analysis."""
    yield from overview(analysis)
    for job in detailed(analysis):
        yield from job_blocks(job)
    yield from gaps(analysis)


def overview(analysis: Analysis) -> Iterator[Table | Facts]:
    """Yield damage, findings, and the jobs beside each other where there are several."""
    yield from problems(analysis)
    for number, finding in enumerate(analysis.findings, start=1):
        yield finding_facts(number, finding, names_job=len(analysis.jobs) > 1)
    if len(analysis.jobs) > 1:
        yield jobs_table(analysis.jobs)


def gaps(analysis: Analysis) -> Iterator[Facts]:
    """Yield what the trace cannot tell, and which files were no traces."""
    items = list(analysis.unknown.items())
    if analysis.relative_times:
        items.append(("time", "counts from an arbitrary moment: hosts cannot be compared by it"))
    if items:
        yield Facts(title="Not told by this trace", items=tuple(items))
    left_out = [("", name) for name in analysis.left_out]
    if analysis.further_left_out:
        left_out.append(("", f"… and {analysis.further_left_out:,} more"))
    if left_out:
        yield Facts(title="No traces, left out", items=tuple(left_out))


def detailed(analysis: Analysis) -> Sequence[JobFigures]:
    """Return the job that lost most; another one can be asked for by name."""
    return sorted(analysis.jobs, key=_lost_s, reverse=True)[:1]


def job_blocks(job: JobFigures) -> Iterator[Table | Facts]:
    """Yield the tables of one job."""
    if job.accelerators is not None:
        yield idle_table(job.accelerators)
    yield from times_table(job)
    if job.loading is not None:
        yield from parts_table(job.loading)
        yield from counts_table(job.loading, job.span_s)
        if job.loading.stragglers is not None:
            yield from stragglers_table(job.loading.stragglers)
    yield from checkpoints_table(job)
    if job.requests is not None:
        yield from sizes_table(job.requests)
        yield from operations_table(job.requests)
    yield from phases_table(job)
    yield from hottest_table(job.hottest)


def problems(analysis: Analysis) -> Iterator[Facts]:
    """Yield what could not be read."""
    items = [("", problem) for problem in analysis.problems]
    if analysis.further_problems:
        items.append(("", f"… and {analysis.further_problems:,} more"))
    if analysis.lost_events:
        items.append(("", f"{analysis.lost_events:,} events were recorded and are missing"))
    if items:
        yield Facts(title="These figures are of a part of the trace", items=tuple(items))


def finding_facts(number: int, finding: Finding, *, names_job: bool) -> Facts:
    """Return one finding with its evidence and what to do."""
    of_job = f" in {finding.job}" if names_job else ""
    lost = f"{seconds(finding.lost_s)}, {percent(finding.lost_share)} of the ranks' time"
    items = [("lost", lost), *(("evidence", line) for line in finding.evidence)]
    items += [(name, ", ".join(names)) for name, names in _culprits(finding) if names]
    items.append(("headrace", finding.answer))
    if finding.expected_gain is not None:
        basis = f" ({finding.basis})" if finding.basis else ""
        items.append(("gain", f"takes away {percent(finding.expected_gain)} of it{basis}"))
    if finding.command:
        items.append(("run", finding.command))
    return Facts(title=f"{number}. {finding.cause}{of_job}", items=tuple(items))


def jobs_table(jobs: Sequence[JobFigures]) -> Table:
    """Return the jobs beside each other, who lost most first."""
    ordered = sorted(jobs, key=_lost_s, reverse=True)
    more = len(jobs) - SHOWN_JOBS
    return Table(
        title="Jobs",
        columns=("job", "ranks", "time", "idle", "loading", "ckpt read", "ckpt save", "step"),
        rows=tuple(
            (
                shortened(job.job),
                _number(job.ranks),
                seconds(job.span_s),
                percent(job.accelerators.idle_share) if job.accelerators else UNKNOWN,
                _mean(_latency(job.loading)),
                _mean(_per_rank(job.checkpoint_read)),
                _mean(_per_rank(job.checkpoint_save)),
                _mean(job.step_s),
            )
            for job in ordered[:SHOWN_JOBS]
        ),
        note="Means, of a rank. Below: the job that lost most; --job shows another."
        + (f" {more:,} further jobs are in the JSON." if more > 0 else ""),
    )


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
        f"loading of a {loading.unit if loading else 'batch'}": _latency(loading),
        "wait for a batch": job.wait_s,
        "checkpoint read, a rank": _per_rank(job.checkpoint_read),
        "checkpoint save, a rank": _per_rank(job.checkpoint_save),
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
    ]
    if rows:
        yield Table(
            title="Stragglers",
            columns=("", "a load", "others", "of the slowest percent"),
            rows=tuple(rows),
            note=_gap(found),
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
    spreads = {"read": requests.read_bytes, "write": requests.write_bytes}
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
                    _mean(_latency(phase.loading)),
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
                    _number(one.ranks),
                    bars(_folded(one.over_time)),
                )
                for one in files[:SHOWN_FILES]
            ),
        )


def shortened(name: str) -> str:
    """Return a name as it can be shown: of a long one the end, which tells more."""
    name = printable(name)
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


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


def _teller(name: str) -> Callable[[float], str]:
    """Return how a number is told whose unit is in its name."""
    if name.endswith("_ns"):
        return lambda value: seconds(value / NS_PER_S)
    return bytes_ if "bytes" in name else _quantity


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
    yield (
        f"Of {_ranks(found.ranks)} in {seconds(found.span_s)}: {_quantity(found.lost_hours)} "
        f"accelerator hours; {_quantity(per_day)} a day at that rate."
    )
    if found.cost is not None:
        yield f"They cost {found.cost:,.2f} at the price given."
    if found.compute_s is not None:
        yield f"Accelerators computed for {seconds(found.compute_s)}."


def _gap(found: Stragglers) -> str:
    if found.slowest_host is None or found.slowest_mean_s is None:
        return ""
    return (
        f"The slowest host is {shortened(found.slowest_host)}: {seconds(found.slowest_mean_s)} a "
        f"load, {seconds(found.gap_s or 0.0)} more than the mean of hosts."
    )


def _culprits(finding: Finding) -> tuple[tuple[str, Sequence[str]], ...]:
    return (("hosts", finding.hosts), ("files", finding.files))


def _named(job: JobFigures) -> str:
    ranks = "" if job.ranks is None else f" of {_ranks(job.ranks)}"
    return f"a job{ranks}" if job.job == NO_JOB else f"job {job.job}{ranks}"


def _lost_s(job: JobFigures) -> float:
    return job.accelerators.idle_s if job.accelerators else 0.0


def _latency(loading: Loading | None) -> Spread | None:
    return None if loading is None else loading.latency_s


def _per_rank(checkpoints: Checkpoints | None) -> Spread | None:
    return None if checkpoints is None else checkpoints.per_rank_s


def _mean(spread: Spread | None) -> str:
    return UNKNOWN if spread is None else seconds(spread.mean)


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number:,} ranks"


def _quantity(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else significant(value)


def _folded(counts: Sequence[int]) -> tuple[int, ...]:
    """Return the counts of fewer, longer bins."""
    width = -(-len(counts) // _BAR_LETTERS) or 1
    return tuple(sum(counts[begin : begin + width]) for begin in range(0, len(counts), width))
