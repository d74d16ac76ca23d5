"""A finished demo with made-up numbers, for tests of what is made of it."""

from __future__ import annotations

import random
from pathlib import Path

from headrace.demo.comparison import Comparison
from headrace.demo.dataset import DemoDataset
from headrace.demo.meter import CpuSample
from headrace.demo.outcome import Segment
from headrace.demo.premise import Cpus, Premise
from headrace.demo.protocol import Mode, SegmentEnd, SegmentPlan, Stepped
from headrace.demo.result import DemoResult
from headrace.report.provenance import provenance

WARMUP = 2


def segment(
    mode: Mode,
    *,
    first_step: int,
    begin_s: float,
    wait_s: float,
    cpu_s: float,
    steps: int = 10,
    step_s: float = 0.2,
    digest: str = "d",
) -> Segment:
    """One segment in which every step waits about as long as the others."""
    draw = random.Random(first_step)
    now, done = begin_s, []
    for number in range(WARMUP + steps):
        wait = wait_s * draw.uniform(0.5, 1.5)
        done.append(
            Stepped(
                step=first_step + number,
                counted=number >= WARMUP,
                samples=8,
                wait_s=wait,
                begin_s=now,
                end_s=now + wait + step_s,
                loading_cpu_s=8 * cpu_s * (number + 1),
                ready_batches=6 if mode == "headrace" else 0,
                digest=f"{digest}{first_step + number}",
            )
        )
        now = done[-1].end_s
    plan = SegmentPlan(
        mode=mode,
        root="/data",
        pipeline="[]",
        batch_size=8,
        seed=7,
        first_step=first_step,
        warmup_steps=WARMUP,
        steps=steps,
        step_s=step_s,
        first_step_s=step_s,
        workers=1,
        cpus=(0,),
    )
    end = SegmentEnd(
        wire_bytes=10_000_000 if mode == "headrace" else 0,
        samples_prepared=90 if mode == "headrace" else 0,
        samples_raw={"busy": 3} if mode == "headrace" else {},
        samples_hedged=0,
        samples_local=0 if mode == "headrace" else 96,
        read_s=0.1,
        transform_s=1.5,
        substituted={17: "photos/moon/0017.jpg: truncated"},
    )
    return Segment(plan=plan, steps=tuple(done), end=end)


def comparison(*, begin_s: float, ours: str = "d") -> Comparison:
    """Two pairs of segments, one after the other."""
    segments, now = [], begin_s
    for pair in range(2):
        for mode, wait_s, cpu_s, digest in (
            ("local", 0.6, 0.02, "d"),
            ("headrace", 0.002, 0.0005, ours),
        ):
            one = segment(
                mode, first_step=12 * pair, begin_s=now, wait_s=wait_s, cpu_s=cpu_s, digest=digest
            )
            segments.append(one)
            now = one.steps[-1].end_s + 1.0
    return Comparison(segments=tuple(segments))


def premise(*, host_work: float) -> Premise:
    """What the made-up machine looks like."""
    return Premise(
        cpus=Cpus(trainer=(0,), storage=(1,)),
        host_work=host_work,
        storage_idle=0.97,
        step_s=0.2,
        link="Unix socket on this machine",
    )


def demo_result(*, ours: str = "d") -> DemoResult:
    """A whole result; ``ours`` other than "d" makes headrace's batches differ."""
    main = comparison(begin_s=5.0, ours=ours)
    off = comparison(begin_s=main.segments[-1].steps[-1].end_s + 2.0)
    end_s = off.segments[-1].steps[-1].end_s
    return DemoResult(
        provenance=provenance(),
        dataset=DemoDataset(
            root=Path("/data"), samples=339, size_bytes=178_000_000, origin="Photographs of moons."
        ),
        pipeline="[]",
        baseline_name="decoding on the trainer with 1 thread",
        tuning="tried: 1",
        premise=premise(host_work=0.75),
        main=main,
        premise_off=premise(host_work=0.0),
        off=off,
        cpu=tuple(_cpu(at_s / 2, main) for at_s in range(8, int(2 * end_s) + 1)),
        agents=1,
        prepare_batch_s=0.14,
    )


def _cpu(at_s: float, main: Comparison) -> CpuSample:
    ours = any(
        one.plan.mode == "headrace" and one.steps[0].begin_s <= at_s <= one.steps[-1].end_s
        for one in main.segments
    )
    of = {"host work": 0.75, "trainer": 0.02 if ours else 0.24, "agents": 0.66 if ours else 0.01}
    return CpuSample(at_s=at_s, busy={"trainer": 0.99, "storage": of["agents"] + 0.03}, of=of)
