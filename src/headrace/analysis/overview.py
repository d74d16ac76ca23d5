"""An analysis in blocks: what is damaged, what was lost to what, jobs beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.analysis.figures import NO_JOB, Analysis, Finding, JobFigures
from headrace.analysis.tables import job_blocks
from headrace.analysis.telling import (
    UNKNOWN,
    latency_of,
    per_rank_of,
    shortened,
    told_mean,
    told_number,
    told_ranks,
)
from headrace.report.blocks import Facts, Table
from headrace.report.units import percent, seconds

SHOWN_JOBS = 10
"""Jobs of the table that compares them; figures have all."""


def first_line(analysis: Analysis) -> str:
    """Return what was analysed in one line, which says first if it is only a part."""
    jobs = len(analysis.jobs)
    told = (
        analysis.format,
        f"{analysis.events:,} events in {seconds(analysis.span_s)}"
        + (", most of it a pause" if "runs" in analysis.unknown else ""),
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
    items += [("gain", gain) for gain in _gains(finding)]
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
                told_number(job.ranks),
                seconds(job.span_s),
                percent(job.accelerators.idle_share) if job.accelerators else UNKNOWN,
                told_mean(latency_of(job.loading)),
                told_mean(per_rank_of(job.checkpoint_read)),
                told_mean(per_rank_of(job.checkpoint_save)),
                told_mean(job.step_s),
            )
            for job in ordered[:SHOWN_JOBS]
        ),
        note="Means, of a rank. Below: the job that lost most; --job shows another."
        + (f" {more:,} further jobs are in the JSON." if more > 0 else ""),
    )


def _gains(finding: Finding) -> Iterator[str]:
    """Say what the trace lets hope for, and what was measured elsewhere."""
    at_most_s = finding.gain_at_most_s
    if at_most_s is not None:
        left_s = finding.lost_s - at_most_s
        rest = (
            f"; ranks would wait {seconds(left_s)} for the rest"
            if left_s > 0.01 * at_most_s
            else ""
        )
        yield f"at most {seconds(at_most_s)} by this trace{rest}"
    if finding.expected_gain is not None:
        basis = f" ({finding.basis})" if finding.basis else ""
        yield f"takes away {percent(finding.expected_gain)} of it{basis}"


def _culprits(finding: Finding) -> tuple[tuple[str, Sequence[str]], ...]:
    ranks = [str(rank) for rank in finding.ranks]
    files = [shortened(file) for file in finding.files]
    return (("hosts", finding.hosts), ("ranks", ranks), ("files", files))


def _named(job: JobFigures) -> str:
    ranks = "" if job.ranks is None else f" of {told_ranks(job.ranks)}"
    return f"a job{ranks}" if job.job == NO_JOB else f"job {job.job}{ranks}"


def _lost_s(job: JobFigures) -> float:
    return job.accelerators.idle_s if job.accelerators else 0.0
