"""What a person sees while the demo runs: two bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from headrace.demo.meter import CpuSample
from headrace.demo.protocol import Stepped
from headrace.report.units import percent, seconds

RECENT = 12
"""Steps that the shown wait is an average of."""


class View(Protocol):
    """Is told what happens; shows what it likes."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""
        ...

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far a piece of work is."""
        ...

    def runs(self, totals: dict[str, int]) -> None:
        """Announce the loaders that are to be compared and the steps of each."""
        ...

    def stepped(self, run: str, step: Stepped) -> None:
        """Show one step of a loader."""
        ...

    def cpu(self, sample: CpuSample) -> None:
        """Show how busy both sides are."""
        ...


class PlainView:
    """One line per event worth a line; for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._totals: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._quarter: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the console as it is."""

    def note(self, text: str) -> None:
        """Print the text."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Print a line at every quarter."""
        quarter = 4 * done // max(1, total)
        if quarter != self._quarter.get(what):
            self._quarter[what] = quarter
            self.note(f"{what}: {done} of {total}")

    def runs(self, totals: dict[str, int]) -> None:
        """Remember how many steps each loader will take."""
        self._totals, self._done = dict(totals), dict.fromkeys(totals, 0)

    def stepped(self, run: str, step: Stepped) -> None:  # noqa: ARG002
        """Print a line at every quarter of the loader's steps."""
        self._done[run] += 1
        self.progress(run, self._done[run], self._totals[run])

    def cpu(self, sample: CpuSample) -> None:
        """Print nothing: the report has the curve."""


class LiveView:
    """Two bars with the current wait, batches ready, and the CPU of both sides."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._work = Progress(
            TextColumn("{task.description:>14}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            console=console,
            expand=True,
        )
        self._runs = Progress(
            TextColumn("{task.description:>14}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("wait {task.fields[wait]:>8}   ready {task.fields[ready]:>2}"),
            console=console,
            expand=True,
        )
        self._waits: dict[str, deque[float]] = {}
        self._cpu = Text("")
        self._live = Live(
            get_renderable=self._shown, console=console, refresh_per_second=5, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        """Print the text above the bars."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Move the bar of this piece of work; it goes away when the work is done."""
        task = next((task for task in self._work.tasks if task.description == what), None)
        number = self._work.add_task(what, total=total) if task is None else task.id
        self._work.update(number, completed=done, total=total, visible=done < total)

    def runs(self, totals: dict[str, int]) -> None:
        """Show one bar per loader."""
        for task in list(self._runs.task_ids):
            self._runs.remove_task(task)
        for name, total in totals.items():
            self._waits[name] = deque(maxlen=RECENT)
            self._runs.add_task(name, total=total, wait="", ready="")

    def stepped(self, run: str, step: Stepped) -> None:
        """Move the loader's bar by one step."""
        waits = self._waits[run]
        waits.append(step.wait_s)
        task = next(task for task in self._runs.tasks if task.description == run)
        self._runs.update(
            task.id,
            advance=1,
            wait=seconds(sum(waits) / len(waits)),
            ready=str(step.ready_batches),
        )

    def cpu(self, sample: CpuSample) -> None:
        """Show both sides' load, and how much of the trainer's is host work."""
        busy, of = sample.busy, sample.of
        self._cpu = Text.assemble(
            ("      CPU  ", "dim"),
            f"trainer {_meter(busy['trainer'])} {percent(busy['trainer']):>5}",
            (f" (host work {of.get('host work', 0.0):.2f})", "dim"),
            f"  storage {_meter(busy['storage'])} {percent(busy['storage']):>5}",
        )

    def _shown(self) -> Group:
        parts: Sequence[Progress | Text | Table] = [
            part for part in (self._work, self._runs) if any(task.visible for task in part.tasks)
        ]
        return Group(*parts, self._cpu)


def _meter(share: float, width: int = 8) -> str:
    full = round(min(1.0, share) * width)
    return "█" * full + "░" * (width - full)


def view_for(console: Console) -> View:
    """Return the view that suits where the console writes."""
    return LiveView(console) if console.is_terminal else PlainView(console)
