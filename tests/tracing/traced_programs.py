"""Runs programs as ``headrace trace run`` does and returns the events of their traces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.trace.opening import open_trace
from headrace.tracing.run import run_traced


@dataclass(frozen=True)
class Outcome:
    exit_code: int
    events: list[dict[str, Any]]

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] in kinds]


def traced(command: Sequence[str], folder: Path) -> Outcome:
    """Run a command below a new folder ``trace`` of ``folder``."""
    trace = folder / "trace"
    ran = run_traced(command, trace, job="job")
    return Outcome(ran.exit_code, events_in(trace) if ran.collected.events else [])


def traced_script(text: str, folder: Path, *arguments: str, options: Sequence[str] = ()) -> Outcome:
    """Run a Python script."""
    script = folder / "script.py"
    script.write_text(text)
    return traced([sys.executable, *options, str(script), *arguments], folder)


def events_in(trace: Path) -> list[dict[str, Any]]:
    """Return the events of a trace, as dictionaries without what is unknown, in their order."""
    batches = open_trace([trace]).batches(lambda _: None)
    rows = [row for batch in batches for row in batch.to_pylist()]
    rows.sort(key=lambda row: row["begin_ns"])
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
