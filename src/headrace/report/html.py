"""Turns a page into one HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from html import escape

from headrace.report.blocks import Block, Facts, Figure, Headlines, Page, Prose, Table

_STYLE = """
:root { --ink:#1b2430; --soft:#5b6675; --line:#e3e7ec; --paper:#ffffff; --ground:#f6f7f9;
        --accent:#0f766e; }
* { box-sizing:border-box; }
body { margin:0; background:var(--ground); color:var(--ink);
       font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif; }
main { max-width:1020px; margin:0 auto; padding:48px 24px 72px; }
h1 { font-size:2rem; line-height:1.2; margin:0 0 12px; letter-spacing:-0.01em; }
.lead { font-size:1.12rem; color:var(--soft); margin:0 0 28px; max-width:62em;
        overflow-wrap:anywhere; }
section { background:var(--paper); border:1px solid var(--line); border-radius:12px;
          padding:22px 26px; margin:0 0 20px; }
h2 { font-size:1.08rem; margin:0 0 12px; }
p { margin:0 0 20px; max-width:66em; }
section p:last-child { margin-bottom:0; }
.note,figcaption { color:var(--soft); font-size:.9rem; margin-top:10px; }
figure { margin:0; } figure svg { width:100%; height:auto; display:block; }
.headlines { display:grid; grid-template-columns:repeat(auto-fit,minmax(165px,1fr)); gap:16px;
             margin:0 0 20px; }
.headline { background:var(--paper); border:1px solid var(--line); border-radius:12px;
            padding:18px 20px; }
.headline b { display:block; font-size:1.9rem; line-height:1.15; color:var(--accent);
              font-variant-numeric:tabular-nums; letter-spacing:-0.02em; }
.headline span { display:block; font-weight:600; margin-top:4px; }
.headline small { color:var(--soft); }
.wide { overflow-x:auto; }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; }
th,td { padding:8px 12px; text-align:right; border-bottom:1px solid var(--line);
        white-space:nowrap; }
th:first-child,td:first-child { text-align:left; padding-left:0; white-space:normal; }
th { color:var(--soft); font-weight:600; font-size:.86rem; }
tr:last-child td { border-bottom:0; }
td.strong { font-weight:650; }
td.drawn { white-space:pre; font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace; }
dl { display:grid; grid-template-columns:max-content 1fr; gap:6px 22px; margin:0; }
dt { color:var(--soft); } dd { margin:0; overflow-wrap:anywhere; }
@media print { body { background:#fff; } section,.headline { break-inside:avoid; } }
"""


def render_page(page: Page) -> str:
    """Return the page as a self-contained HTML document."""
    body = "\n".join(_block(block) for block in page.blocks)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(page.title)}</h1>"
        f'<p class="lead">{escape(page.lead)}</p>\n{body}\n</main></body></html>\n'
    )


def _block(block: Block) -> str:
    match block:
        case Table():
            return _section(block.title, _table(block))
        case Figure():
            caption = f"<figcaption>{escape(block.caption)}</figcaption>"
            return _section(block.title, f"<figure>{block.svg}{caption}</figure>")
        case Headlines():
            return f'<div class="headlines">{"".join(map(_headline, _triples(block)))}</div>'
        case Facts():
            return _section(block.title, _facts(block))
        case Prose():
            return f"<p>{escape(block.text)}</p>"


def _section(title: str, inner: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inner}</section>"


def _triples(block: Headlines) -> list[tuple[str, str, str]]:
    return [(item.value, item.label, item.detail) for item in block.items]


def _headline(item: tuple[str, str, str]) -> str:
    value, label, detail = map(escape, item)
    return f'<div class="headline"><b>{value}</b><span>{label}</span><small>{detail}</small></div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{_cells(row, table)}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>{note}'


def _cells(row: tuple[str, ...], table: Table) -> str:
    return "".join(
        f"<td{_class(place, table)}>{escape(cell)}</td>" for place, cell in enumerate(row)
    )


def _class(place: int, table: Table) -> str:
    if place in table.drawn:
        return ' class="drawn"'
    return ' class="strong"' if place in table.emphasis else ""


def _facts(facts: Facts) -> str:
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items
    )
    return f"<dl>{items}</dl>"
