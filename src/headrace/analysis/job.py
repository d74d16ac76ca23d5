"""One job."""

from __future__ import annotations

import msgspec

from headrace.analysis.accelerators import accelerators, overlap
from headrace.analysis.checkpoints import CheckpointSums
from headrace.analysis.columns import Columns
from headrace.analysis.cuts import MovedCuts
from headrace.analysis.diagnosis import findings
from headrace.analysis.distinct import DistinctNames
from headrace.analysis.evidence import Evidence
from headrace.analysis.figures import Checkpoints, Finding, JobFigures, PhaseFigures, Requests
from headrace.analysis.heat import HeatSums
from headrace.analysis.pauses import Pauses
from headrace.analysis.phases import PhaseSums
from headrace.analysis.spans import Spans
from headrace.analysis.spreads import NS_PER_S, SpreadSketch
from headrace.analysis.timekeeping import TimeSums
from headrace.trace.events import Kind, Phase

_PHASES = frozenset(map(str, Phase))
_OF_FILES = (Kind.REQUEST, Kind.METADATA)


class JobSums:
    """Adds up the events of one job."""

    def __init__(self) -> None:
        self._phases: dict[Phase | None, PhaseSums] = {}
        self._steps = Spans()
        self._step_times = SpreadSketch()
        self._reads = CheckpointSums()
        self._saves = CheckpointSums()
        self._times = TimeSums()
        self._heat = HeatSums()
        self._hosts = DistinctNames()
        self._files = DistinctNames()
        self._evidence = Evidence()
        self._pauses = Pauses()
        self._cuts = MovedCuts()

    def add(self, columns: Columns) -> None:
        """Take in events of the job."""
        for named, part in columns.by("phase"):
            phase = Phase(named) if named in _PHASES else None
            self._phases.setdefault(phase, PhaseSums()).add(part)
        steps = columns.of(Kind.STEP)
        self._steps.add(steps)
        self._step_times.add(steps.timed().durations)
        self._reads.add(columns.of(Kind.CHECKPOINT_READ))
        self._saves.add(columns.of(Kind.CHECKPOINT_SAVE))
        self._times.add(columns)
        self._heat.add(columns)
        self._hosts.add(columns, "host")
        self._files.add(columns.of(*_OF_FILES), "file")
        self._evidence.add(columns)
        self._pauses.add(columns)
        self._cuts.add(columns)

    def keep_at_most(self, stretches: int) -> None:
        """Let stretches of time take no more memory from now on."""
        self._times.most = stretches

    def result(self, job: str, *, price_per_hour: float | None) -> JobFigures:
        """Return the figures."""
        whole = PhaseSums()
        for phase in self._phases.values():
            whole.merge(phase)
        spans = whole.spans
        return JobFigures(
            job=job,
            ranks=spans.ranks or None,
            hosts=len(self._hosts) or None,
            events=spans.events,
            span_s=spans.span_s,
            longest_pause_s=self._pauses.longest_s(),
            steps=self._steps.most_events or None,
            step_s=self._step_times.result(NS_PER_S),
            wait_s=whole.waits.result(NS_PER_S),
            loading=whole.loading.result(),
            requests=self._requests(whole),
            checkpoint_read=self._checkpoint_reads(),
            checkpoint_save=self._saves.result(),
            accelerators=accelerators(self._times, price_per_hour),
            overlap=overlap(self._times),
            timeline=self._times.timeline(spans.begin_ns),
            cuts=self._cuts.result(spans.begin_ns),
            phases=self._phase_figures(),
            hottest=self._heat.result(spans.begin_ns, spans.end_ns),
        )

    def findings(self, figures: JobFigures) -> tuple[Finding, ...]:
        """Return what the job, whose other figures are these, lost time to."""
        return findings(self._evidence.result(figures.job), figures, self._heat)

    def rough(self) -> dict[str, str]:
        """Return which figures memory had no room to tell exactly → by how much."""
        said = {}
        if self._times.late:
            said["accelerators"] = (
                f"{self._times.late:,} events came when others of their time had been added up: "
                "what happened at the same time counts twice"
            )
        closed_s = sum(phase.all_requests().closed_s for phase in self._phases.values())
        if closed_s:
            said["bytes_per_s"] = (
                "pauses between requests were too many, short ones were closed: bandwidth is too "
                f"low by what {closed_s:.3g} s make"
            )
        if self._cuts.given_up:
            said["cuts"] = f"{self._cuts.given_up:,} later moves of a cut are not told"
        if self._heat.given_up:
            said["hottest"] = "files were too many: reads of those that come seldom are not counted"
        return said

    def _requests(self, whole: PhaseSums) -> Requests | None:
        """Return what was asked of storage; what was asked of agents, if they do not tell it."""
        files = len(self._files) or None
        if not self._evidence.is_told_by_agents:
            return whole.all_requests().result(files=files)
        asked, fetched = whole.requests.result(files=files), whole.fetches.result()
        if fetched is None:
            return asked
        return msgspec.structs.replace(asked or Requests(), fetched_bytes=fetched.read_bytes)

    def _checkpoint_reads(self) -> Checkpoints | None:
        found = self._reads.result()
        if found is None or found.mean_request_bytes is not None:
            return found
        mean = self._heat.mean_read_bytes(sorted(self._reads.files))
        return msgspec.structs.replace(found, mean_request_bytes=mean)

    def _phase_figures(self) -> tuple[PhaseFigures, ...]:
        known = [phase for phase in Phase if phase in self._phases]
        return tuple(self._phases[phase].result(phase) for phase in known)
