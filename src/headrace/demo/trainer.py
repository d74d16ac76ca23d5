"""One segment of a demo, in a process of its own: ``python -m headrace.demo.trainer``.

The plan comes in on standard input, which then stays open: when it is closed, the demo
is gone and this process leaves. What happened goes out on standard output, a line a step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from headrace.core.errors import HeadraceError
from headrace.demo.cputime import LoadingCpu
from headrace.demo.feeds import Fed, Feed
from headrace.demo.proof import batch_digest
from headrace.demo.protocol import Failed, Imported, Message, SegmentPlan, Stepped, encode

Emit = Callable[[Message], None]
Work = Callable[[Fed], None]
"""What the loop computes with a batch besides the emulated step."""


def train(plan: SegmentPlan, feed: Feed, emit: Emit, work: Work) -> None:
    """Run the training loop over the plan's steps and report each."""
    cpu = LoadingCpu(with_children=plan.mode == "torch")
    fed = iter(feed)
    for number in range(plan.warmup_steps + plan.steps):
        with cpu.aside():
            ready = feed.ready_batches()
        begin_s = time.monotonic()
        batch = next(fed)
        arrived_s = time.monotonic()
        with cpu.aside():
            loading_cpu_s = cpu.seconds()
            work(batch)
            digest = batch_digest(batch.columns, batch.rows)
        step_s = plan.step_s if number else plan.first_step_s
        time.sleep(max(0.0, arrived_s + step_s - time.monotonic()))
        with cpu.aside():
            emit(
                Stepped(
                    step=batch.step,
                    counted=number >= plan.warmup_steps,
                    samples=batch.size,
                    wait_s=arrived_s - begin_s,
                    begin_s=begin_s,
                    end_s=time.monotonic(),
                    loading_cpu_s=loading_cpu_s,
                    ready_batches=ready,
                    digest=digest,
                )
            )
    emit(feed.end())


def run(plan: SegmentPlan, emit: Emit) -> None:
    """Take the place the plan gives this process, and train."""
    make_feed = feed_type(plan)
    work = _model() if plan.model else _nothing
    _take_place(plan)
    emit(Imported())
    try:
        with make_feed(plan) as feed:
            train(plan, feed, emit, work)
    except HeadraceError as error:
        emit(Failed(error=str(error), exit_code=error.exit_code))


def _take_place(plan: SegmentPlan) -> None:
    """Pin and demote this process: after the imports, which are no part of the comparison."""
    if plan.cpus:
        os.sched_setaffinity(0, plan.cpus)
    os.nice(plan.nice)


def _nothing(_: Fed) -> None:
    """Stand in for a model."""


def _model() -> Work:
    from headrace.demo.model import SmallModel

    return SmallModel().train_on


def _leave_with_demo() -> None:
    """End this process as soon as standard input is closed."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> None:
    """Read the plan and carry it out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo ends its trainers, in order
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=SegmentPlan)
    threading.Thread(target=_leave_with_demo, daemon=True).start()
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but messages may go out

    def emit(message: Message) -> None:
        output.write(encode(message))
        output.flush()

    run(plan, emit)


def feed_type(plan: SegmentPlan) -> Callable[[SegmentPlan], Feed]:
    """Import the loader that a plan names and return what makes it."""
    if plan.mode == "torch":
        from headrace.demo.torchfeed import TorchFeed

        return TorchFeed
    from headrace.demo.ownfeed import OwnFeed

    return OwnFeed


if __name__ == "__main__":
    main()
