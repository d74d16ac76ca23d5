"""An analysis as one page: what was lost to what, then every drawing and table."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analysis.drawings import drawings
from headrace.analysis.figures import Accelerators, Analysis, Checkpoints, JobFigures, Loading
from headrace.analysis.overview import detailed, first_line, gaps, overview
from headrace.analysis.tables import job_blocks
from headrace.analysis.telling import told_cost
from headrace.report.blocks import Block, Facts, Headline, Headlines, Page
from headrace.report.provenance import Provenance
from headrace.report.units import percent, seconds, significant


def analysis_page(analysis: Analysis, provenance: Provenance) -> Page:
    """Return the whole page."""
    return Page(
        title="Where every second went",
        lead=first_line(analysis),
        blocks=(
            *overview(analysis),
            *(block for job in detailed(analysis) for block in _of_job(job)),
            *gaps(analysis),
            Facts(title="Where this comes from", items=provenance.facts()),
        ),
    )


def _of_job(job: JobFigures) -> Iterator[Block]:
    headlines = tuple(_headlines(job))
    if headlines:
        yield Headlines(items=headlines)
    yield from drawings(job)
    yield from job_blocks(job)


def _headlines(job: JobFigures) -> Iterator[Headline]:
    """Yield the numbers that a job is judged by."""
    if job.accelerators is not None:
        yield _idle(job.accelerators)
    if job.loading is not None:
        yield _loading(job.loading)
    for name, found in (("read", job.checkpoint_read), ("save", job.checkpoint_save)):
        if found is not None:
            yield _checkpoint(name, found)
    if job.step_s is not None:
        yield Headline(
            value=seconds(job.step_s.mean), label="step", detail=f"P99 {seconds(job.step_s.p99)}"
        )


def _idle(found: Accelerators) -> Headline:
    return Headline(
        value=percent(found.idle_share),
        label="accelerators idle",
        detail=f"{significant(found.lost_hours)} accelerator hours"
        + ("" if found.cost is None else f", {told_cost(found.cost)} at the price given"),
    )


def _loading(found: Loading) -> Headline:
    latency = found.latency_s
    return Headline(
        value=seconds(latency.mean),
        label=f"to load a {found.unit}",
        detail=f"P99 {seconds(latency.p99)}, longest {seconds(latency.most)}",
    )


def _checkpoint(name: str, found: Checkpoints) -> Headline:
    return Headline(
        value=seconds(found.per_rank_s.mean),
        label=f"checkpoint {name}, a rank",
        detail=f"longest {seconds(found.per_rank_s.most)}",
    )
