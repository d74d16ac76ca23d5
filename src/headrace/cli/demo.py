"""``headrace demo``: the main job on one machine, without and with headrace."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from headrace.cli.outputs import json_option


@click.command()
@click.option("--quick", is_flag=True, help="Fewer steps and repeats: about a minute.")
@click.option("--torch", is_flag=True, help="Compare with a torch DataLoader; train a real model.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("headrace-demo"),
    show_default=True,
    help="Where dataset and report are kept.",
)
@json_option("Write the figures; - is standard output.")
def command(quick: bool, torch: bool, directory: Path, json_file: str | None) -> int:
    """Train on one machine, without and with headrace, and compare.

    Makes a dataset of real photographs and clips that installed packages carry, starts
    agents on CPUs of their own, and runs the same steps of a training loop twice: with
    decoding on the trainer's CPU, then with headrace. Exits 1 if any batch differs.

    \b
    Examples:
      headrace demo --quick
      headrace demo --json demo.json
    """  # noqa: D301 - click reads the lone \b
    from headrace.demo.page import report_page
    from headrace.demo.result import result_document, tables
    from headrace.demo.run import DemoSettings, quick_settings, run_demo
    from headrace.demo.view import view_for
    from headrace.report.console import print_table
    from headrace.report.document import write_document, write_json
    from headrace.report.html import render_page

    settings = (
        quick_settings(directory, torch=torch)
        if quick
        else DemoSettings(directory=directory, torch=torch)
    )
    errors = Console(stderr=True)
    with view_for(errors) as view:
        result = run_demo(settings, view)
    console = errors if json_file == "-" else Console()
    for table in tables(result):
        print_table(console, table)
    report = directory / "report.html"
    write_document(report, render_page(report_page(result)).encode())
    console.print(f"report: {report.absolute()}", highlight=False, soft_wrap=True)
    if json_file:
        write_json(json_file, result_document(result))
    return 1 if result.unequal else 0
