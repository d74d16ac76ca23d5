"""Pages, tables and numbers for people."""

from __future__ import annotations

import base64
import io
import re

import pytest
from PIL import Image
from rich.console import Console

from headrace.report import plots, units
from headrace.report.blocks import Facts, Headline, Headlines, Page, Prose, Table
from headrace.report.console import print_facts, print_table
from headrace.report.html import render_page
from headrace.report.provenance import provenance

TABLE = Table(title="Waits", columns=("", "ours"), rows=(("median", "2 ms"),), note="Small print.")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (1.234, "1.23 s"),
        (0.0183, "18.3 ms"),
        (4.1e-4, "410 µs"),
        (123.4, "123 s"),
        (0.9999, "1.00 s"),
        (9.996e-4, "1.00 ms"),
        (3599.9, "1.00 h"),
        (1234.0, "1234 s"),
    ],
)
def test_durations_have_three_digits_and_the_unit_that_suits(value: float, text: str) -> None:
    assert units.seconds(value) == text


def test_sizes_are_decimal() -> None:
    assert units.bytes_(999) == "999 B"
    assert units.bytes_(178_534_635) == "179 MB"
    assert units.bytes_(999_999) == "1.00 MB"


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100 %"), (0.997, "99.7 %"), (0.9999, "99.9 %"), (0.99, "99 %"), (0.031, "3.1 %")],
)
def test_not_quite_the_whole_is_not_a_hundred_percent(share: float, text: str) -> None:
    assert units.percent(share) == text


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


def hottest(*names: str) -> Table:
    return Table(
        title="Hottest",
        columns=("file", "bytes", "over time"),
        rows=tuple((name, "733 MB", "    █  ▃ █") for name in names),
        drawn=frozenset({2}),
    )


def test_names_give_way_to_numbers_and_drawings_and_keep_their_ends() -> None:
    output = io.StringIO()
    long = f"{'deep/' * 9}shard-17.tar"
    print_table(Console(file=output, width=48), hottest(long, "short.tar"))
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= 48
    rows = [line for line in lines if "733 MB" in line]
    assert len(rows) == 2 and all("    █  ▃ █" in row for row in rows)
    assert re.match(r"  …\S*deep/shard-17\.tar  ", rows[0]) and rows[1].startswith("  short.tar ")


def test_columns_without_room_come_below_with_the_names_once_more_and_no_number_is_cut() -> None:
    numbers = [f"{n}.50 ms" for n in range(1, 8)]
    table = Table(
        title="Jobs",
        columns=("job", *(f"checkpoint column {n}" for n in range(1, 8))),
        rows=tuple((job * 32, *numbers) for job in "ab"),
        emphasis=frozenset({7}),
    )
    output = io.StringIO()
    print_table(Console(file=output, width=60), table)
    told = output.getvalue()
    assert max(map(len, told.splitlines())) <= 60
    assert all(told.count(number) == 2 for number in numbers)
    assert told.count("…" + "a" * 15) == told.count("…" + "b" * 15) == 3
    assert told.count("checkpoint") == 7 and told.count("Jobs") == 1


def test_drawings_below_each_other_begin_at_the_same_place() -> None:
    output = io.StringIO()
    rows = (("early", "█         "), ("late", "         █"))
    drawn = Table(title="t", columns=("file", "over time"), rows=rows, drawn=frozenset({1}))
    print_table(Console(file=output, width=60), drawn)
    early, late = (line for line in output.getvalue().splitlines() if "█" in line)
    assert late.index("█") - early.index("█") == 9


def test_a_wide_terminal_shows_names_in_full() -> None:
    output = io.StringIO()
    print_table(Console(file=output, width=60), hottest("a" * 30))
    assert "a" * 30 in output.getvalue()


def test_a_drawing_keeps_its_blanks_on_a_page() -> None:
    html = render_page(Page(title="t", lead="l", blocks=(hottest("f"),)))
    assert '<td class="drawn">    █  ▃ █</td>' in html
    assert re.search(r"td\.drawn \{[^}]*white-space:pre;[^}]*monospace", html)


def test_a_title_longer_than_its_table_stays_in_one_line() -> None:
    output = io.StringIO()
    table = Table(title="a title of some words", columns=("", "n"), rows=(("x", "1"),))
    print_table(Console(file=output, width=80), table)
    assert output.getvalue().splitlines()[0] == "a title of some words"


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


def test_names_with_dollars_and_rare_letters_are_drawn_as_they_are() -> None:
    bar = plots.Bar(label="a$b$c_東京", parts=(("part", plots.OURS, 1.0),))
    assert "a$b$c_東京" in plots.bars([bar], x_label="x")


def image_in(drawn: str) -> Image.Image:
    """The image of a drawing, which lies in it upside down."""
    found = re.search(r"data:image/png;base64,([^\"]+)", drawn)
    assert found is not None and "scale(1 -1)" in drawn
    image = Image.open(io.BytesIO(base64.b64decode(found[1]))).convert("RGB")
    return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def pixel(image: Image.Image, x: float, y: float) -> tuple[int, ...]:
    found = image.getpixel((int(image.width * x), int(image.height * y)))
    assert isinstance(found, tuple)
    return found


@pytest.mark.parametrize("sizes", [[110e3, 400e3], [200e3, 900e3], [100.0, 5e9]])
def test_sizes_within_a_decade_are_labelled_as_those_of_many_are(sizes: list[float]) -> None:
    line = plots.Series(label="read", colour=plots.OURS, x=sizes, y=[0.5, 1.0])
    drawn = plots.shares_of_sizes([line], x_label="size", y_label="not larger")
    assert "mathdefault" not in drawn
    labels = re.findall(r">(\d[\d.]*) [kMG]?B<", drawn)
    assert 2 <= len(labels) <= 12


def test_an_image_has_a_strip_for_each_name_and_mixes_colours() -> None:
    layers = [
        plots.Layer(label="one", colour="#ff0000", rows=[[1, 0], [0.5, 0]]),
        plots.Layer(label="other", colour="#0000ff", rows=[[0, 0], [0.5, 0]]),
    ]
    drawn = plots.strips(layers, ["first", "second"], end=2.0, x_label="time [s]")
    for text in ("first", "second", "one", "other", "time [s]"):
        assert f">{text}</text>" in drawn
    pixels = image_in(drawn)
    found = [pixel(pixels, x, y) for y in (0.25, 0.75) for x in (0.25, 0.75)]
    assert found[0] == (255, 0, 0) and found[1] == found[3] == (255, 255, 255)
    assert found[2] == pytest.approx((128, 0, 128), abs=2)


def test_what_happens_at_the_same_time_mixes_to_no_black() -> None:
    layers = [
        plots.Layer(label=label, colour=colour, rows=[[1]])
        for label, colour in (("one", "#ff0000"), ("other", "#0000ff"))
    ]
    drawn = plots.strips(layers, ["first"], end=1.0, x_label="time [s]")
    assert pixel(image_in(drawn), 0.5, 0.5) == pytest.approx((128, 0, 128), abs=2)


def test_heat_is_darker_where_there_is_more() -> None:
    drawn = plots.heat_map([[0, 1, 100]], ["file"], end=3.0, x_label="time [s]")
    pixels = image_in(drawn)
    none, little, much = (pixel(pixels, x, 0.5)[2] for x in (0.1, 0.5, 0.9))
    assert 255 == none > little > much


def test_facts_are_printed_with_what_is_in_brackets_and_without_what_drives_terminals() -> None:
    output = io.StringIO()
    facts = Facts(title="[b]Facts", items=(("name", "[red]value\x1b[0m " + "long " * 30),))
    print_facts(Console(file=output, width=60), facts)
    said = output.getvalue()
    assert "[b]Facts" in said and "[red]value" in said and "\x1b" not in said
    assert max(map(len, said.splitlines())) <= 60 and said.count("long") == 30


@pytest.mark.parametrize(
    ("value", "told"), [(1, "1 B"), (1000, "1 kB"), (10**8, "100 MB"), (10**18, "1000 PB")]
)
def test_round_sizes_are_told_in_decimal_units(value: float, told: str) -> None:
    assert units.round_bytes(value) == told
