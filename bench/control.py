"""The controller's cost: 20,000 ranks that report every 10 s through 2,500 hosts.

A real controller with its journal, real sockets over loopback; another process plays the
hosts, and in two of three runs 250 agents that report every second what all 32 jobs did, each
over one keep-alive connection. Jobs are of very different sizes. The hosts
of a job end an iteration together, as synchronous training does, and each waits its part of
the time that the controller asks them to spread their reports over, as ``Loader`` does.
Bandwidth is short, so that quotas move and loans are made all the time.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import uvloop

from bench.measuring import Options, Report, Spread, options, publish, spread
from headrace.controller.local import LocalController
from headrace.report.blocks import Table
from headrace.wire.control import (
    BINARY,
    AgentAnnounced,
    AgentOrders,
    AgentReport,
    HealthAnswer,
    HealthReport,
    JobAnnounced,
    JobUse,
    TierOffer,
    TierUse,
)

_STORAGE = ("--tier", "hdd=40GB/s", "--tier", "ssd=200GB/s")
"""What hosts read without agents."""

ANNOUNCE_AT_ONCE = 64
"""Announcements in flight, before the clock starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """What reports."""

    ranks: int = 20_000
    hosts: int = 2_500
    jobs: int = 32
    agents: int = 250
    period_s: float = 10.0
    """Time of one iteration of every job."""

    warm_s: float = 12.0
    measured_s: float = 40.0
    repeats: int = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Who reports in one run, and how."""

    title: str
    binary: bool = False
    with_agents: bool = True


LOADS = {
    "hosts": Load(title="hosts, JSON", with_agents=False),
    "hosts_and_agents": Load(title="+ agents, JSON"),
    "binary": Load(title="+ agents, binary", binary=True),
}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What hosts and agents measured, and the controller's CPU, over one repeat."""

    health_s: list[float]
    agents_s: list[float]
    failures: int
    cores: float = 0.0
    memory_bytes: int = 0


def main(given: Options) -> None:
    """Measure and report."""
    scale = Scale(warm_s=2.0, measured_s=11.0, repeats=1) if given.quick else Scale()
    publish(measure(scale), given.json)


def measure(scale: Scale) -> Report:
    """Let all report, and look at the controller meanwhile."""
    figures = {name: _figures(_runs(scale, load)) for name, load in LOADS.items()}
    worst = figures["hosts_and_agents"]
    return Report(
        name="control",
        settings=msgspec.to_builtins(scale),
        baseline={},
        headrace=figures,
        ratios={
            "cores": worst["cores"],
            "p99_ms": _scaled(worst["answer_p99_s"], 1e3),
            "report_bytes": spread([max(_sizes().values())]),
        },
        goals={"cores": "≤ 0.3", "p99_ms": "≤ 50", "report_bytes": "< 1024"},
        table=_table(scale, figures),
        repeats=scale.repeats,
        further={"bytes": _sizes()},
    )


def _figures(runs: Sequence[Seen]) -> dict[str, Any]:
    return {
        "cores": spread([run.cores for run in runs]),
        "memory_bytes": spread([float(run.memory_bytes) for run in runs]),
        "answer_p50_s": spread([float(np.percentile(run.health_s, 50)) for run in runs]),
        "answer_p99_s": spread([float(np.percentile(run.health_s, 99)) for run in runs]),
        "agent_answer_p99_s": spread(
            [float(np.percentile(run.agents_s or [0.0], 99)) for run in runs]
        ),
        "reports": sum(len(run.health_s) for run in runs),
        "agent_reports": sum(len(run.agents_s) for run in runs),
        "failures": sum(run.failures for run in runs),
    }


def _scaled(found: Spread, factor: float) -> Spread:
    return Spread(median=found.median * factor, min=found.min * factor, max=found.max * factor)


def _sizes() -> dict[str, int]:
    """Return the longest report's size in both forms [bytes]."""
    report = _health(host=2499, boot="0123456789abcdef", iteration=123_456, rng=random.Random(0))
    return {
        "json": len(msgspec.json.encode(report)),
        "binary": len(msgspec.msgpack.encode(report)),
    }


def _table(scale: Scale, figures: Mapping[str, Mapping[str, Any]]) -> Table:
    def ms(found: Spread) -> str:
        return f"{1e3 * found.median:.1f} ms"

    return Table(
        title=f"{scale.ranks:,} ranks through {scale.hosts:,} hosts every {scale.period_s:g} s; "
        f"{scale.agents} agents every second",
        columns=("who reports", "cores", "P50", "P99", "agents' P99", "memory", "failures"),
        rows=tuple(
            (
                LOADS[name].title,
                f"{found['cores'].median:.2f}",
                ms(found["answer_p50_s"]),
                ms(found["answer_p99_s"]),
                ms(found["agent_answer_p99_s"]) if LOADS[name].with_agents else "-",
                f"{found['memory_bytes'].median / 1e6:.0f} MB",
                str(found["failures"]),
            )
            for name, found in figures.items()
        ),
    )


# The controller's side


def _runs(scale: Scale, load: Load) -> list[Seen]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        controller = stack.enter_context(LocalController(place / "journal.db", options=_STORAGE))
        crowd = stack.enter_context(_crowd(controller, scale, load))
        return [_run(controller, crowd) for _ in range(scale.repeats)]


def _run(controller: LocalController, crowd: Connection) -> Seen:
    crowd.send("go")
    process = psutil.Process(controller.pid)
    began, before = time.monotonic(), process.cpu_times()
    seen = msgspec.msgpack.decode(crowd.recv_bytes(), type=Seen)
    after, took_s = process.cpu_times(), time.monotonic() - began
    spent_s = after.user + after.system - before.user - before.system
    return msgspec.structs.replace(
        seen, cores=spent_s / took_s, memory_bytes=process.memory_info().rss
    )


@contextmanager
def _crowd(controller: LocalController, scale: Scale, load: Load) -> Iterator[Connection]:
    """Start the process that plays hosts and agents; it measures each time it is sent a word."""
    mine, theirs = multiprocessing.Pipe()
    crowd = multiprocessing.get_context("spawn").Process(
        target=_play, args=(theirs, controller.address, controller.token, scale, load)
    )
    crowd.start()
    try:
        if not mine.poll(120) or mine.recv() != "ready":
            raise TimeoutError("hosts and agents were not all announced within 120 s")
        yield mine
    finally:
        mine.close()
        crowd.join(10)
        crowd.kill()
        crowd.join()


# The crowd's side


@dataclass(slots=True)
class Tally:
    """What was measured since it was emptied."""

    health_s: list[float]
    agents_s: list[float]
    failures: int = 0


class Caller:
    """One keep-alive connection, one request at a time."""

    def __init__(self, host: str, port: int, token: str, *, binary: bool) -> None:
        self._target = (host, port)
        self._kind = BINARY if binary else "application/json"
        self._encode = msgspec.msgpack.encode if binary else msgspec.json.encode
        self._decode = msgspec.msgpack.decode if binary else msgspec.json.decode
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: {self._kind}"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, line: str, message: msgspec.Struct, form: type[Any]) -> Any:
        """Send one message and return the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._target)
        reading, writing = self._streams
        body = self._encode(message)
        writing.write(
            f"{line} HTTP/1.1\r\n{self._head}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reading.readuntil(b"\r\n\r\n")).lower()
        count = int(head.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        answer = await reading.readexactly(count)
        if not head.startswith(b"http/1.1 200"):
            raise ConnectionError(answer.decode())
        return self._decode(answer, type=form)


def _play(pipe: Connection, address: str, token: str, scale: Scale, load: Load) -> None:
    uvloop.run(_play_all(pipe, address, token, scale, load))


async def _play_all(pipe: Connection, address: str, token: str, scale: Scale, load: Load) -> None:
    host, _, port = address.removeprefix("http://").rpartition(":")
    tally, rng = Tally([], []), random.Random(1)

    def caller() -> Caller:
        return Caller(host, int(port), token, binary=load.binary)

    agents = scale.agents if load.with_agents else 0
    players: list[_Agent | _Host] = [_Agent(caller(), one, tally) for one in range(agents)]
    players += [
        _Host(caller(), tally, scale, job=job, hosts=size, number=number)
        for job, size in enumerate(_sizes_of_jobs(scale))
        for number in range(size)
    ]
    turns = asyncio.Semaphore(ANNOUNCE_AT_ONCE)
    await asyncio.gather(*(player.announce(turns) for player in players))
    pipe.send("ready")
    tasks = [asyncio.create_task(player.play(rng.random())) for player in players]
    await asyncio.sleep(scale.warm_s)
    loop = asyncio.get_running_loop()
    for _ in range(scale.repeats):
        await loop.run_in_executor(None, pipe.recv)
        tally.health_s, tally.agents_s, tally.failures = [], [], 0
        await asyncio.sleep(scale.measured_s)
        seen = Seen(health_s=tally.health_s, agents_s=tally.agents_s, failures=tally.failures)
        pipe.send_bytes(msgspec.msgpack.encode(seen))
    for task in tasks:
        task.cancel()


def _sizes_of_jobs(scale: Scale) -> list[int]:
    """Return how many hosts each job has: the largest a fifth of all, as in shared clusters."""
    parts = 1.0 / np.arange(1, scale.jobs + 1)
    sizes = np.maximum(1, np.floor(parts / parts.sum() * scale.hosts)).astype(int)
    sizes[0] += scale.hosts - sizes.sum()
    return [int(size) for size in sizes]


class _Host:
    """One host of a job: an iteration every period, all hosts of the job at once."""

    def __init__(
        self, caller: Caller, tally: Tally, scale: Scale, *, job: int, hosts: int, number: int
    ) -> None:
        self._caller, self._tally, self._scale = caller, tally, scale
        self._job, self._hosts, self._number = job, hosts, number
        self._rng = random.Random(job * 10_000 + number)
        self._spread_s = 0.0

    async def announce(self, turns: asyncio.Semaphore) -> None:
        message = JobAnnounced(
            host=f"host-{self._number:04}",
            boot="0123456789abcdef",
            world=8 * self._hosts,
            hosts=self._hosts,
            step_time_s=self._scale.period_s,
        )
        async with turns:
            line = f"PUT /v1/jobs/job-{self._job:02}"
            answer: HealthAnswer = await self._caller.call(line, message, HealthAnswer)
        self._spread_s = answer.spread_s

    async def play(self, _: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + random.Random(self._job).random() * self._scale.period_s
        iteration = 0
        while True:
            own = self._spread_s * self._rng.random()
            await asyncio.sleep(max(0.0, due + own - loop.time()))
            await self._report(iteration)
            iteration, due = iteration + 1, due + self._scale.period_s

    async def _report(self, iteration: int) -> None:
        message = _health(self._number, "0123456789abcdef", iteration, self._rng)
        line = f"POST /v1/jobs/job-{self._job:02}/health"
        began = time.perf_counter()
        try:
            answer: HealthAnswer = await self._caller.call(line, message, HealthAnswer)
        except (OSError, asyncio.IncompleteReadError):
            self._tally.failures += 1
            return
        self._tally.health_s.append(time.perf_counter() - began)
        self._spread_s = answer.spread_s


class _Agent:
    """One agent: all jobs read a little there."""

    def __init__(self, caller: Caller, number: int, tally: Tally) -> None:
        self._caller, self._number, self._tally = caller, number, tally
        self._rng = random.Random(number)
        self._orders = AgentOrders()

    async def announce(self, turns: asyncio.Semaphore) -> None:
        message = AgentAnnounced(
            boot="0123456789abcdef",
            address=f"http://10.1.{self._number // 250}.{self._number % 250}:7411",
            tiers=(
                TierOffer(tier="hdd", media="hdd", bytes_per_s=600e6),
                TierOffer(tier="ssd", media="ssd", bytes_per_s=4e9),
            ),
        )
        async with turns:
            await self._caller.call(f"PUT /v1/agents/node-{self._number}", message, AgentOrders)

    async def play(self, phase: float) -> None:
        loop = asyncio.get_running_loop()
        due, sequence = loop.time() + phase, 0
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self._report(sequence)
            sequence, due = sequence + 1, due + self._orders.every_s

    async def _report(self, sequence: int) -> None:
        message = AgentReport(
            boot="0123456789abcdef",
            sequence=sequence,
            interval_s=1.0,
            jobs={name: self._use(quotas) for name, quotas in self._orders.quotas.items()},
            cpu_share=0.4,
            workers=16,
        )
        line = f"POST /v1/agents/node-{self._number}/report"
        began = time.perf_counter()
        try:
            self._orders = await self._caller.call(line, message, AgentOrders)
        except (OSError, asyncio.IncompleteReadError):
            self._tally.failures += 1
            return
        self._tally.agents_s.append(time.perf_counter() - began)

    def _use(self, quotas: Mapping[str, float]) -> JobUse:
        used = {
            tier: TierUse(
                nbytes=int(rate * self._rng.uniform(0.3, 1.0)), reads=100, queued_s=1.5, read_s=0.7
            )
            for tier, rate in quotas.items()
        }
        return JobUse(tiers=used, tensor_bytes=10_000_000, waiting=12, enforced=dict(quotas))


def _health(host: int, boot: str, iteration: int, rng: random.Random) -> HealthReport:
    """Return a host's report; queues are often short, so that there is something to decide."""
    hdd = rng.uniform(0.3, 0.9)
    return HealthReport(
        host=f"host-{host:04}",
        boot=boot,
        iteration=iteration,
        step=iteration,
        step_time_s=10.0 + rng.random() / 1e3,
        wait_s=rng.random() / 1e3,
        queue_depth=rng.uniform(2.0, 8.0),
        queue_capacity=8.0,
        io_latency_s=rng.uniform(0.01, 0.02),
        io_latency_cv=rng.random(),
        next_bytes=rng.randrange(400_000_000, 800_000_000),
        upcoming_bytes=tuple(rng.randrange(400_000_000, 800_000_000) for _ in range(8)),
        queue_share=rng.random() / 4,
        throttled_share=rng.random() / 4,
        hit_rate=1.0 - hdd,
        split={"hdd": hdd, "ssd": 1.0 - hdd},
        transform_share=rng.random() / 4,
        nic_bytes_per_s=rng.uniform(4e7, 8e7),
        read_bytes_per_s=rng.uniform(4e7, 8e7),
        direct_bytes={"hdd": rng.randrange(1_000_000), "ssd": 0},
        ranks=8,
    )


if __name__ == "__main__":
    main(options())
