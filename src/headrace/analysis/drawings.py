"""An analysis as drawings. matplotlib is imported when the first one is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.analysis.figures import JobFigures, Loading, Spread
from headrace.analysis.spreads import SHARES
from headrace.analysis.tables import SHOWN_FILES
from headrace.analysis.telling import LABELS, shortened
from headrace.report import plots
from headrace.report.blocks import Figure
from headrace.report.units import counted, percent, seconds

_COLOURS = {
    "data": plots.ALARM,
    "checkpoint_read": "#7c5cbf",
    "checkpoint_save": "#b48ad8",
    "barrier": plots.NEUTRAL,
    "compute": plots.OURS,
}
_PARTS = {
    "metadata": "#7c5cbf",
    "retrieval": plots.NEUTRAL,
    "transformation": plots.ALARM,
    "overhead": plots.MUTED,
}


def drawings(job: JobFigures) -> Iterator[Figure]:
    """Yield what can be drawn of a job."""
    yield from timeline(job)
    yield from idle(job)
    yield from breakdown(job)
    yield from latencies(job)
    yield from hosts(job)
    yield from sizes(job)
    yield from heat(job)


def timeline(job: JobFigures) -> Iterator[Figure]:
    """Yield what each rank was at over time."""
    found = job.timeline
    if found is None:
        return
    layers = [
        plots.Layer(label=LABELS[name], colour=_COLOURS[name], rows=_shares(rows))
        for name, rows in found.shares.items()
        if any(map(any, _shares(rows)))
    ]
    if not layers:
        return
    are_all = job.ranks in {None, len(found.ranks)}
    shown = "" if are_all else f" {len(found.ranks)} of {job.ranks:,} ranks."
    end_s = found.begin_s + found.bin_s * len(layers[0].rows[0])
    yield Figure(
        title="What each rank was at",
        svg=plots.strips(layers, found.ranks, begin=found.begin_s, end=end_s, x_label="time [s]"),
        caption=f"A row is a rank, a bin {seconds(found.bin_s)}; colours mix where a bin holds "
        f"several, white is nothing that the trace knows.{shown}",
    )


def idle(job: JobFigures) -> Iterator[Figure]:
    """Yield what ranks' time went to."""
    found = job.accelerators
    if found is None or not found.idle_s:
        return
    whole_s = found.ranks * found.span_s
    spent_s = found.by_cause_s | {"compute": found.compute_s or 0.0}
    parts = [
        (LABELS[name], _COLOURS[name], 100 * seconds_ / whole_s)
        for name, seconds_ in spent_s.items()
        if seconds_
    ]
    rest_s = whole_s - sum(spent_s.values())
    name = "at work, or not known" if found.compute_s is None else "not known"
    rest = (name, plots.MUTED, 100 * rest_s / whole_s)
    yield Figure(
        title="Where accelerators' time went",
        svg=plots.bars([plots.Bar(label="ranks", parts=(*parts, rest))], x_label="share [%]"),
        caption=f"They stood still for {percent(found.idle_share)} of their time. A moment with "
        "several causes counts once.",
    )


def breakdown(job: JobFigures) -> Iterator[Figure]:
    """Yield of what loading consists, in each phase that loads."""
    loadings = [(phase.phase, phase.loading) for phase in job.phases]
    if not any(loading and loading.parts for _, loading in loadings):
        loadings = [("all", job.loading)]
    items = [
        plots.Bar(
            label=name,
            parts=tuple(
                (part, _PARTS[part], one.per_load_s) for part, one in loading.parts.items()
            ),
        )
        for name, loading in loadings
        if loading is not None and loading.parts
    ]
    if items:
        yield Figure(
            title="Of what loading consists",
            svg=plots.bars(items, x_label="time per load [s]"),
            caption="Parts of samples that were prepared at the same time are summed.",
        )


def latencies(job: JobFigures) -> Iterator[Figure]:
    """Yield how loading latency and that of requests are spread."""
    lines = (
        ("loading", plots.OURS, job.loading and job.loading.latency_s),
        ("request", plots.NEUTRAL, job.requests and job.requests.latency_s),
    )
    series = [_curve(*line) for line in lines if line[2] is not None]
    if series:
        yield Figure(
            title="Loads and requests by how long they took",
            svg=plots.shares_of_durations(series, x_label="latency", y_label="not longer"),
            caption="Share of loads, and of requests to storage, that took no longer.",
        )


def sizes(job: JobFigures) -> Iterator[Figure]:
    """Yield how the sizes of requests are spread."""
    if job.requests is None:
        return
    lines = (
        ("read", plots.OURS, job.requests.read_bytes),
        ("write", plots.BASELINE, job.requests.write_bytes),
    )
    series = [_curve(*line) for line in lines if line[2] is not None]
    if series:
        yield Figure(
            title="Requests by size",
            svg=plots.shares_of_sizes(series, x_label="size", y_label="not larger"),
            caption="Share of requests that are no larger.",
        )


def hosts(job: JobFigures) -> Iterator[Figure]:
    """Yield how much slower than others the hosts are that stand out."""
    found = job.loading and job.loading.stragglers
    if not found or found.mean_s is None or found.gap_s is None or not found.hosts:
        return
    slow = [
        plots.Bar(label=shortened(one.name), parts=(("slow host", plots.ALARM, one.mean_s),))
        for one in found.hosts
    ]
    mean = plots.Bar(label="mean", parts=(("mean of hosts", plots.NEUTRAL, found.mean_s),))
    yield Figure(
        title="Hosts that load slower than others",
        svg=plots.bars([*slow, mean], x_label="mean time of a load [s]"),
        caption=f"The slowest takes {seconds(found.gap_s)} more than the mean of hosts.",
    )


def heat(job: JobFigures) -> Iterator[Figure]:
    """Yield when the hottest files were read."""
    files = job.hottest[:SHOWN_FILES]
    if not files or not job.span_s:
        return
    rows = [one.over_time for one in files]
    yield Figure(
        title="Hottest files over time",
        svg=plots.heat_map(
            rows, [shortened(one.file) for one in files], end=job.span_s, x_label="time [s]"
        ),
        caption=f"The darkest bin holds {counted(max(map(max, rows)), 'read')}, white none.",
    )


def _shares(rows: Sequence[str]) -> list[list[float]]:
    """Return shares from the digits of a timeline."""
    return [[int(digit) / 9 for digit in row] for row in rows]


def _parts(name: str, loading: Loading) -> plots.Bar:
    parts = loading.parts.items()
    return plots.Bar(
        label=name, parts=tuple((part, _PARTS[part], one.per_load_s) for part, one in parts)
    )


def _curve(label: str, colour: str, spread: Spread | None) -> plots.Series:
    points = spread.curve if spread is not None else ()
    least = min((one for one in points if one > 0), default=1.0)
    return plots.Series(label=label, colour=colour, x=[max(one, least) for one in points], y=SHARES)
