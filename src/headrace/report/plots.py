"""Plots as inline SVG. matplotlib is imported when the first one is drawn.

The functions take plain numbers and know nothing of what was measured. Colours are
given by the caller by role, so that a run has the same colour in every plot.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.report.units import round_bytes, round_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BASELINE = "#c2683b"
OURS = "#0f766e"
ALARM = "#d98e3f"
NEUTRAL = "#94a0ae"
MUTED = "#d5dae1"

_INK = "#1b2430"
_WIDTH_INCHES = 9.6
_NARROWEST_NAMED = 0.075
"""A span must have this share of the axis for its name to fit."""

_MOST_NAMED_ROWS = 20
"""Of an image; of more, only some are named."""

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "headrace",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "text.parse_math": False,  # names of files may have dollars
    "axes.labelcolor": "#5b6675",
    "axes.edgecolor": "#c7ced7",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#eceff3",
    "grid.linewidth": 0.8,
    "xtick.color": "#5b6675",
    "ytick.color": "#5b6675",
    "legend.frameon": False,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line: y over x."""

    label: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A stretch of the x axis with a name."""

    begin: float
    end: float
    label: str
    colour: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One horizontal bar, made of named parts."""

    label: str
    parts: tuple[tuple[str, str, float], ...]
    """Part's name, colour and length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One colour of an image: how much of each of its cells has it."""

    label: str
    colour: str
    rows: Sequence[Sequence[float]]
    """Shares (0 … 1) ``[rows, bins]``; those of all layers together are 1 at most."""


def durations_on_log_scale(
    series: Sequence[Series], *, x_label: str, y_label: str, breaks: Sequence[float] = ()
) -> str:
    """Draw durations [s] that span decades, one dot each, with a line at every break."""
    with _axes(height=3.2) as (figure, axes):
        axes.set_yscale("log")
        for line in series:
            axes.plot(line.x, line.y, "o", ms=4.5, mew=0, alpha=0.85, color=line.colour)
        _label_decades(axes.yaxis, round_seconds)
        for place in breaks:
            axes.axvline(place, color=MUTED, lw=1, ls=(0, (4, 3)))
        _label(axes, x_label, y_label)
        _legend(axes, [(line.label, line.colour) for line in series])
        return _svg(figure)


def lines(
    series: Sequence[Series], *, x_label: str, y_label: str, breaks: Sequence[float] = ()
) -> str:
    """Draw lines from zero up, stepped; NaN interrupts a line; a line marks every break."""
    with _axes(height=2.4) as (figure, axes):
        for line in series:
            axes.plot(line.x, line.y, drawstyle="steps-mid", color=line.colour, lw=1.8)
        for place in breaks:
            axes.axvline(place, color=MUTED, lw=1, ls=(0, (4, 3)))
        axes.set_ylim(bottom=0)
        _label(axes, x_label, y_label)
        _legend(axes, [(line.label, line.colour) for line in series])
        return _svg(figure)


def shares_of_durations(series: Sequence[Series], *, x_label: str, y_label: str) -> str:
    """Draw cumulative shares (0 … 1) over durations [s] that span decades."""
    return _shares(series, round_seconds, x_label=x_label, y_label=y_label)


def shares_of_sizes(series: Sequence[Series], *, x_label: str, y_label: str) -> str:
    """Draw cumulative shares (0 … 1) over sizes [bytes] that span decades."""
    return _shares(series, round_bytes, x_label=x_label, y_label=y_label)


def _shares(
    series: Sequence[Series], told: Callable[[float], str], *, x_label: str, y_label: str
) -> str:
    with _axes(height=2.8) as (figure, axes):
        axes.set_xscale("log")
        axes.yaxis.set_major_formatter(_percent)
        for line in series:
            axes.plot(line.x, line.y, drawstyle="steps-post", color=line.colour, lw=1.8)
        _label_decades(axes.xaxis, told)
        axes.set_ylim(0, 1.02)
        _label(axes, x_label, y_label)
        _legend(axes, [(line.label, line.colour) for line in series])
        return _svg(figure)


def points(series: Sequence[Series], *, x_label: str, y_label: str) -> str:
    """Draw shares (0 … 1) measured at some values of x, joined by straight lines."""
    with _axes(height=2.8) as (figure, axes):
        axes.yaxis.set_major_formatter(_percent)
        for line in series:
            axes.plot(line.x, line.y, "o-", ms=5, color=line.colour, lw=1.6)
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.02)
        _label(axes, x_label, y_label)
        _legend(axes, [(line.label, line.colour) for line in series], beside=True)
        return _svg(figure)


def _percent(value: float, _: float) -> str:
    return f"{100 * value:.0f} %"


def bars(items: Sequence[Bar], *, x_label: str) -> str:
    """Draw one bar per item, its parts side by side; one of no length keeps its place."""
    with _axes(height=0.55 * len(items) + 1.1) as (figure, axes):
        names = [item.label for item in items]
        for place, item in enumerate(items):
            _stack(axes, place, item)
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", length=0, labelsize=10.5, labelcolor=_INK)
        axes.grid(visible=False, axis="y")
        axes.set_ylim(len(items) - 0.5, -0.5)
        _label(axes, x_label, "")
        _legend(axes, _distinct([part[:2] for item in items for part in item.parts]))
        return _svg(figure)


def _stack(axes: Axes, place: int, item: Bar) -> None:
    left = 0.0
    for _, colour, length in item.parts:
        axes.barh(place, length, left=left, color=colour, height=0.58)
        left += length


def areas(
    panels: Sequence[tuple[str, Sequence[Series]]],
    spans: Sequence[Span],
    *,
    x_label: str,
    y_label: str,
) -> str:
    """Draw one panel above the other, each with its series stacked; spans are named on top."""
    with _axes(height=1.75 * len(panels) + 0.9, rows=len(panels)) as (figure, first):
        for axes, (title, series) in zip(figure.axes, panels, strict=True):
            axes.stackplot(
                series[0].x,
                *[line.y for line in series],
                colors=[line.colour for line in series],
                linewidth=0,
            )
            axes.set_ylim(0, 1.02)
            axes.set_xlim(series[0].x[0], series[0].x[-1])
            axes.yaxis.set_major_formatter(_percent)
            axes.set_title(title, loc="left", fontsize=10, pad=20 if axes is first else 6)
            _legend(axes, [(line.label, line.colour) for line in series], beside=True)
            _mark_spans(axes, spans, named=axes is first)
            axes.set_ylabel(y_label)
        figure.axes[-1].set_xlabel(x_label)
        return _svg(figure)


def strips(
    layers: Sequence[Layer],
    names: Sequence[str],
    *,
    begin: float = 0.0,
    end: float,
    x_label: str,
) -> str:
    """Draw a strip for each name from begin to end; the colours of layers mix in each bin."""
    with _axes(height=_image_height(len(names))) as (figure, axes):
        _show_image(axes, _mixed(layers), names, (begin, end))
        _label(axes, x_label, "")
        _legend(axes, [(layer.label, layer.colour) for layer in layers], beside=True)
        return _svg(figure)


def _mixed(layers: Sequence[Layer]) -> npt.NDArray[np.float64]:
    """Return the colour of each bin, ``[rows, bins, 3]`` from 0 to 1; of no layer it is white.

    Layers that fill a bin at the same time share it.
    """
    from matplotlib.colors import to_rgb

    shares = np.array([layer.rows for layer in layers], np.float64)
    shares /= np.maximum(shares.sum(axis=0), 1.0)
    missing = 1.0 - np.array([to_rgb(layer.colour) for layer in layers])
    image: npt.NDArray[np.float64] = 1.0 - np.einsum("lrb,lc->rbc", shares, missing)
    return image


def heat_map(
    rows: Sequence[Sequence[float]], names: Sequence[str], *, end: float, x_label: str
) -> str:
    """Draw numbers ``[rows, bins]`` from 0 to ``end``: the larger, the darker; 0 is white."""
    values = np.sqrt(np.asarray(rows, np.float64))
    shares = values / max(float(values.max()), 1e-12)
    shown = np.where(shares > 0, 0.15 + 0.85 * shares, 0.0).tolist()
    return strips(
        [Layer(label="reads", colour=BASELINE, rows=shown)], names, end=end, x_label=x_label
    )


def _image_height(rows: int) -> float:
    return min(max(0.26 * rows, 0.8), 4.6) + 0.7


def _show_image(axes: Axes, image: Any, names: Sequence[str], ends: tuple[float, float]) -> None:
    axes.imshow(
        image,
        aspect="auto",
        interpolation="nearest",
        extent=(*ends, len(names) - 0.5, -0.5),
    )
    every = -(-len(names) // _MOST_NAMED_ROWS)
    axes.set_yticks(range(0, len(names), every), names[::every])
    axes.tick_params(axis="y", length=0, labelsize=8.5, labelcolor=_INK)
    axes.grid(visible=False)


def _mark_spans(axes: Axes, spans: Sequence[Span], *, named: bool) -> None:
    for span in spans:
        axes.axvspan(span.begin, span.end, ymin=0.975, ymax=1.0, color=span.colour, lw=0)
        axes.axvline(span.begin, color="#ffffff", lw=1)
        if named and span.end - span.begin > _NARROWEST_NAMED * (
            axes.get_xlim()[1] - axes.get_xlim()[0]
        ):
            axes.annotate(
                span.label,
                ((span.begin + span.end) / 2, 1.02),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
                fontsize=8.5,
                color=span.colour,
            )


@contextmanager
def _axes(*, height: float, rows: int = 1) -> Iterator[tuple[Figure, Axes]]:
    import matplotlib as mpl
    from matplotlib.figure import Figure as NewFigure

    with mpl.rc_context(_STYLE):
        figure = NewFigure(figsize=(_WIDTH_INCHES, height), layout="constrained")
        axes = figure.subplots(rows, 1, sharex=True, squeeze=False)
        yield figure, axes[0][0]


def _label_decades(axis: Axis, told: Callable[[float], str]) -> None:
    """Label the decades of a logarithmic axis; where these are few, also 2 and 5 of each."""
    from matplotlib.ticker import LogLocator, NullFormatter

    least, most = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 1000 * least else (1,)))
    axis.set_major_formatter(lambda value, _: told(value))
    axis.set_minor_formatter(NullFormatter())


def _label(axes: Axes, x_label: str, y_label: str) -> None:
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)


def _legend(axes: Axes, entries: Sequence[tuple[str, str]], *, beside: bool = False) -> None:
    from matplotlib.patches import Patch

    axes.legend(
        handles=[Patch(color=colour, label=label) for label, colour in entries],
        loc="upper left" if beside else "lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=1 if beside else len(entries),
        fontsize=9,
        handlelength=1.0,
        handleheight=0.9,
        columnspacing=1.4,
        borderaxespad=0.2,
    )


def _distinct(entries: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(entries))


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    with warnings.catch_warnings():  # the browser has glyphs that matplotlib's font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
