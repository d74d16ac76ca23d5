"""Pages, tables and numbers for people."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from headrace.report import plots, units
from headrace.report.blocks import Facts, Headline, Headlines, Page, Prose, Table
from headrace.report.console import print_table
from headrace.report.html import render_page
from headrace.report.provenance import provenance

TABLE = Table(title="Waits", columns=("", "ours"), rows=(("median", "2 ms"),), note="Small print.")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 s"), (1.234, "1.23 s"), (0.0183, "18.3 ms"), (4.1e-4, "410 µs"), (123.4, "123 s")],
)
def test_durations_have_three_digits_and_the_unit_that_suits(value: float, text: str) -> None:
    assert units.seconds(value) == text


def test_sizes_are_decimal() -> None:
    assert units.bytes_(999) == "999 B"
    assert units.bytes_(178_534_635) == "179 MB"


def test_what_is_not_a_number_is_a_dash() -> None:
    for told in (units.seconds, units.percent, units.ratio):
        assert told(float("nan")) == "–"


def test_a_row_with_a_cell_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells, the table 2"):
        Table(title="t", columns=("a", "b"), rows=(("only one",),))


def test_a_page_escapes_what_it_was_given() -> None:
    page = Page(
        title="<b>",
        lead="a & b",
        blocks=(
            TABLE,
            Prose(text="<script>"),
            Facts(title="Facts", items=(("k", "<v>"),)),
            Headlines(items=(Headline(value="<1>", label="l"),)),
        ),
    )
    html = render_page(page)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &amp; b" in html


def test_the_terminal_shows_the_same_cells() -> None:
    output = io.StringIO()
    print_table(Console(file=output, width=80), TABLE)
    for part in ("Waits", "median", "2 ms", "Small print."):
        assert part in output.getvalue()


def test_a_narrow_terminal_wraps_sentences_and_cuts_no_word() -> None:
    names = ("unabbreviated", "incomprehensible", "a few short words in a row")
    table = Table(title="t", columns=names, rows=((*names[:2], "x"),))
    output = io.StringIO()
    print_table(Console(file=output, width=50), table)
    assert "…" not in output.getvalue()
    assert output.getvalue().count("incomprehensible") == 2


def test_a_bar_of_no_length_keeps_its_place() -> None:
    full = plots.Bar(label="some", parts=(("part", plots.OURS, 1.0),))
    drawn = plots.bars([full, plots.Bar(label="none", parts=())], x_label="x")
    below = {text: float(y) for y, text in re.findall(r' y="([\d.]+)"[^>]*>([^<]+)</text>', drawn)}
    assert below["0.0"] - below["none"] > (below["none"] - below["some"]) / 2


def test_plots_are_the_same_bytes_for_the_same_numbers() -> None:
    line = plots.Series(label="ours", colour=plots.OURS, x=[1, 2], y=[0.1, 0.2])
    first, second = (plots.lines([line], x_label="x", y_label="y") for _ in range(2))
    assert first == second
    assert first.startswith("<svg")


def test_provenance_names_the_machine() -> None:
    made_at = provenance()
    assert made_at.machine.cpus_usable >= 1
    assert made_at.date.endswith("+00:00")
