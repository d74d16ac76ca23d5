"""The report."""

from __future__ import annotations

import pytest
from demo_made_up import demo_result

from headrace.demo.meter import CpuSample
from headrace.demo.page import report_page, spent_between
from headrace.report.html import render_page


def test_the_report_needs_nothing_but_itself() -> None:
    html = render_page(report_page(demo_result()))
    assert html.count("<svg") == 5
    for foreign in ("<script", "<link", "src=", "@import", "url(http"):
        assert foreign not in html


def test_the_report_states_premise_machine_command_and_origin() -> None:
    html = render_page(report_page(demo_result()))
    for part in ("host-work load", "CPUs", "command", "Photographs of moons", "truncated"):
        assert part in html


def test_the_report_leads_with_the_failure_when_batches_differ() -> None:
    page = report_page(demo_result(ours="other"))
    assert "DIFFER" in page.lead


def test_cpu_time_is_counted_inside_the_stretch_only() -> None:
    samples = [CpuSample(at_s=at, busy={}, of={"agents": 0.5}) for at in (0.0, 1.0, 2.0, 3.0)]
    assert spent_between(samples, "agents", 0.5, 2.5) == pytest.approx(1.0)
    assert spent_between(samples, "trainer", 0.5, 2.5) == 0.0
