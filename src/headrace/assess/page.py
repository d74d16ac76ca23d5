"""The assessment as tables for a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.assess.measuring import Measurement
from headrace.assess.outlook import KindOutlook, OpCost, Outlook, Settings, Variant
from headrace.report import plots
from headrace.report.blocks import Block, Facts, Figure, Page, Table
from headrace.report.provenance import Provenance
from headrace.report.units import bytes_, counted, percent, ratio, seconds


def tables(found: Outlook, measurement: Measurement, settings: Settings) -> tuple[Block, ...]:
    """Return what was found, the answer first."""
    return (
        _waits(found, settings),
        *(_ops(kind) for kind in found.kinds),
        _needs(found),
        *_heaviest(found),
        *_unusable(measurement),
    )


def assessment_page(
    found: Outlook,
    measurement: Measurement,
    settings: Settings,
    *,
    url: str,
    provenance: Provenance,
) -> Page:
    """Return the report."""
    waits, *rest = tables(found, measurement, settings)
    return Page(
        title=f"headrace assess: {url}",
        lead=found.verdict,
        blocks=(waits, _drawing(found), *rest, _facts(measurement, settings, provenance)),
    )


def _waits(found: Outlook, settings: Settings) -> Table:
    variants = (*found.local, found.offload)
    return Table(
        title=f"What the loop would wait, {counted(settings.batch_size, 'sample')} every "
        f"{seconds(settings.step_s)}",
        columns=("batches are made", "waits", "P99 of a step", "samples/s"),
        rows=tuple(_row(variant) for variant in variants),
        note="Simulated over the measured samples; local workers share "
        f"{counted(settings.trainer_cpus, 'CPU')}. Merely reading, without transforming, would "
        f"leave {percent(found.storage_alone.share)} of waiting.",
    )


def _row(variant: Variant) -> tuple[str, ...]:
    stall = variant.stall
    return (
        variant.name,
        percent(stall.share),
        seconds(stall.p99_s),
        f"{stall.samples_per_s:.0f}",
    )


def _ops(kind: KindOutlook) -> Table:
    return Table(
        title=f"{kind.kind}: {counted(kind.samples, 'sample')}, {kind.measured_on} measured",
        columns=("op", "runs on", "CPU", "P10", "P90", "bytes out"),
        rows=(
            ("(read)", "storage", seconds(kind.read_s), "", "", bytes_(kind.stored_bytes)),
            *(_cells(op) for op in kind.ops if op.cpu_s or op.on_storage),
        ),
        note=_why(kind),
    )


def _cells(op: OpCost) -> tuple[str, ...]:
    return (
        f"{op.position} {op.op}",
        "storage" if op.on_storage else "trainer",
        seconds(op.cpu_s) if op.cpu_s else "with above",
        seconds(op.cpu_p10_s) if op.cpu_s else "",
        seconds(op.cpu_p90_s) if op.cpu_s else "",
        bytes_(op.bytes_out),
    )


def _why(kind: KindOutlook) -> str:
    where = f"Cut behind op {kind.cut - 1}" if kind.cut else "Sent raw"
    told = (
        f"{where}: {seconds(kind.storage_s)} on storage, {bytes_(kind.wire_bytes)} on the "
        f"wire, {seconds(kind.trainer_s)} on the trainer"
    )
    if kind.next_cut is None:
        return f"{told}; no other cut is possible."
    other = f"a cut behind op {kind.next_cut - 1}" if kind.next_cut else "sending raw bytes"
    return f"{told}; {other} would cost {ratio(kind.next_price)} times as much."


def _needs(found: Outlook) -> Facts:
    needs = found.needs
    return Facts(
        title="What a loop that never waits takes",
        items=(
            ("samples", f"{needs.samples_per_s:.0f} a second"),
            ("read from storage", f"{bytes_(needs.read_bytes_per_s)}/s"),
            ("without agents", f"{needs.local_cpus:.2f} CPUs of the trainer"),
            (
                "with agents",
                f"{needs.storage_cpus:.2f} CPUs on storage, {needs.trainer_cpus:.2f} of the "
                f"trainer, {8e-9 * needs.network_bytes_per_s:.2f} Gbit/s between them",
            ),
        ),
    )


def _heaviest(found: Outlook) -> Sequence[Table]:
    if not found.heaviest:
        return ()
    return (
        Table(
            title="Heaviest of the measured samples",
            columns=("sample", "kind", "CPU", "times the mean"),
            rows=tuple(
                (heavy.key, heavy.kind, seconds(heavy.cpu_s), ratio(heavy.times_mean))
                for heavy in found.heaviest
            ),
        ),
    )


def _unusable(measurement: Measurement) -> Sequence[Facts]:
    if not measurement.unusable_count:
        return ()
    return (
        Facts(
            title=f"{counted(measurement.unusable_count, 'sample')} could not be used",
            items=tuple((str(n), why) for n, why in enumerate(measurement.unusable, 1)),
        ),
    )


def _drawing(found: Outlook) -> Figure:
    items = [
        *(_bar(variant, "made by this host", plots.BASELINE) for variant in found.local),
        _bar(found.offload, "made by agents", plots.OURS),
    ]
    return Figure(
        title="Part of the loop's time that it would wait",
        svg=plots.bars(items, x_label="waiting [%]"),
        caption="Each bar is one way to make the same batches.",
    )


def _bar(variant: Variant, made: str, colour: str) -> plots.Bar:
    return plots.Bar(label=variant.name, parts=((made, colour, 100 * variant.stall.share),))


def _facts(measurement: Measurement, settings: Settings, provenance: Provenance) -> Facts:
    return Facts(
        title="How to doubt this",
        items=(
            *provenance.facts(),
            (
                "measured",
                f"{counted(len(measurement.samples), 'sample')} in {seconds(measurement.seconds)}, "
                "one at a time, drawn over the whole index by kind and size",
            ),
            (
                "assumed",
                f"{counted(settings.agents, 'agent')} with {settings.agent_cpus} CPUs as fast as "
                f"this host's, {8e-9 * settings.bandwidth:.3g} Gbit/s from there, "
                f"{settings.trainer_cpus} CPUs here that nothing else uses",
            ),
        ),
    )
