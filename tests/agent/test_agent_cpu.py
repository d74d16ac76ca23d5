"""The CPU meter, on made-up hosts: affinity, quotas, processes that come and go."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headrace.agent.cgroup import find_group
from headrace.agent.cpu import CpuMeter, CpuScope
from headrace.agent.processes import ProcessTimes
from headrace.core.clock import ManualClock
from headrace.core.errors import ConfigError

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Host:
    """A made-up procfs and control group tree, and a meter's clock that goes with it."""

    def __init__(self, folder: Path, *, cpus: int) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"
        self.clock = ManualClock(1000.0)
        self.busy_s = [0.0] * cpus
        self.groups("")
        self.passes(0.0)

    def passes(self, seconds: float, *, busy: dict[int, float] | None = None) -> None:
        """Let time pass, in which CPUs were busy for so long [s]."""
        self.clock.advance(seconds)
        for number, spent in (busy or {}).items():
            self.busy_s[number] += spent
        now = self.clock.now()
        lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
        for number, spent in enumerate(self.busy_s):
            idle = ticks(now - spent) // 2
            lines.append(f"cpu{number} {ticks(spent)} 0 0 {idle} {idle} 0 0 0 {ticks(spent)} 0")
        write(self.proc / "stat", "\n".join([*lines, "intr 1 2 3"]))
        write(self.proc / "uptime", f"{now:.2f} 1.00\n")

    def process(self, pid: int, used_s: float, *, start: float = 1.0) -> None:
        before = "S 1 1 1 0 -1 0 0 0 0 0"
        after = f"0 0 30 10 1 0 {ticks(start)} 0 0"
        text = f"{pid} (a (strange) name) {before} {ticks(used_s)} 0 {after}"
        write(self.proc / str(pid) / "stat", text)

    def groups(self, text: str) -> None:
        write(self.proc / "self" / "cgroup", text)

    def group_v2(
        self, path: str, *, quota: str, used_s: float = 0.0, throttled_s: float = 0.0
    ) -> None:
        write(self.cgroup / path / "cpu.max", f"{quota} 100000\n")
        statistics = f"usage_usec {used_s * 1e6:.0f}\nnr_periods 9\n"
        write(
            self.cgroup / path / "cpu.stat", f"{statistics}throttled_usec {throttled_s * 1e6:.0f}\n"
        )

    def group_v1(
        self, path: str, *, quota: int, used_s: float | None = 0.0, throttled_s: float = 0.0
    ) -> None:
        write(self.cgroup / "cpu" / path / "cpu.cfs_quota_us", f"{quota}\n")
        write(self.cgroup / "cpu" / path / "cpu.cfs_period_us", "100000\n")
        statistics = f"nr_periods 9\nthrottled_time {throttled_s * 1e9:.0f}\n"
        write(self.cgroup / "cpu" / path / "cpu.stat", statistics)
        if used_s is not None:
            write(self.cgroup / "cpuacct" / path / "cpuacct.usage", f"{used_s * 1e9:.0f}\n")

    def meter(self, cpus: set[int], scope: CpuScope = "host") -> CpuMeter:
        return CpuMeter(
            cpus=cpus, proc=self.proc, cgroup=self.cgroup, clock=self.clock, scope=scope
        )


def ticks(seconds: float) -> int:
    return round(seconds * TICKS_PER_S)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_only_the_cpus_of_the_affinity_set_count(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=4)
    host.process(50, used_s=3.0)
    meter = host.meter({1, 2})
    first = meter.read([50])
    assert (first.capacity_cores, first.others_cores, first.own_cores) == (2.0, 0.0, 0.0)
    host.passes(1.0, busy={0: 1.0, 1: 1.0, 2: 0.5, 3: 1.0})
    host.process(50, used_s=3.25)
    reading = meter.read([50])
    assert reading.capacity_cores == 2.0
    assert reading.own_cores == pytest.approx(0.25)
    assert reading.others_cores == pytest.approx(1.25)


def test_readings_too_close_together_repeat_the_one_before(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=1)
    meter = host.meter({0})
    meter.read([])
    host.passes(1.0, busy={0: 0.5})
    reading = meter.read([])
    host.passes(0.001, busy={0: 0.001})
    assert meter.read([]) is reading
    host.passes(0.999, busy={0: 0.999})
    assert meter.read([]).others_cores == pytest.approx(1.0)


def test_a_quota_of_version_2_smaller_than_the_affinity_set_is_the_capacity(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=8)
    host.groups("0::/pods/agent\n")
    host.group_v2("pods/agent", quota="150000", used_s=10)
    host.group_v2("pods", quota="max", used_s=90)
    meter = host.meter(set(range(8)))
    meter.read([])
    host.passes(1.0, busy={0: 1.0})
    host.group_v2("pods/agent", quota="150000", used_s=10.75)
    reading = meter.read([])
    assert reading.capacity_cores == 1.5
    assert reading.others_cores == pytest.approx(0.75)


def test_a_busy_host_counts_although_the_quota_is_free(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=2)
    host.groups("0::/\n")
    host.group_v2("", quota="100000")
    meter = host.meter({0, 1})
    meter.read([])
    host.passes(1.0, busy={0: 1.0, 1: 0.9})
    host.group_v2("", quota="100000")
    reading = meter.read([])
    assert reading.capacity_cores == 1.0
    assert reading.others_cores == pytest.approx(0.95)


@pytest.mark.parametrize("throttled_s", [0.0, 1.0])
def test_a_quota_that_holds_tasks_back_is_told(tmp_path: Path, throttled_s: float) -> None:
    host = Host(tmp_path, cpus=4)
    host.groups("0::/\n")
    host.group_v2("", quota="100000")
    host.process(50, used_s=0)
    meter = host.meter({0, 1, 2, 3})
    assert not meter.read([50]).held_back
    host.passes(1.0, busy={0: 0.5, 1: 0.5})
    host.process(50, used_s=0.5)
    host.group_v2("", quota="100000", used_s=1.0, throttled_s=throttled_s)
    reading = meter.read([50])
    assert reading.held_back == (throttled_s > 0)
    assert reading.others_cores == pytest.approx(0.5)


def test_busy_neighbours_do_not_count_where_the_quota_is_guaranteed(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=2)
    host.groups("0::/\n")
    host.group_v2("", quota="100000")
    meter = host.meter({0, 1}, scope="group")
    meter.read([])
    host.passes(1.0, busy={0: 1.0, 1: 1.0})
    host.group_v2("", quota="100000", used_s=0.25)
    assert meter.read([]).others_cores == pytest.approx(0.25)


def test_without_a_quota_the_host_counts_in_any_scope(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=2)
    host.groups("0::/\n")
    meter = host.meter({0, 1}, scope="group")
    meter.read([])
    host.passes(1.0, busy={0: 1.0, 1: 0.0})
    assert meter.read([]).others_cores == pytest.approx(1.0)


def test_a_quota_of_version_1_is_the_capacity(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=4)
    host.groups("5:cpu,cpuacct:/box\n4:memory:/elsewhere\n")
    host.group_v1("box", quota=50_000, used_s=2.0)
    meter = host.meter({0, 1, 2, 3})
    meter.read([])
    host.passes(1.0, busy={0: 0.3})
    host.group_v1("box", quota=50_000, used_s=2.3)
    reading = meter.read([])
    assert reading.capacity_cores == 0.5
    assert reading.others_cores == pytest.approx(0.3)


def test_members_are_added_up_where_the_kernel_accounts_another_group(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=4)
    host.groups("2:cpuacct:/\n1:cpu:/box\n")
    host.group_v1("box", quota=100_000, used_s=None)
    write(host.cgroup / "cpuacct" / "cpuacct.usage", "999000000000\n")
    write(host.cgroup / "cpu" / "box" / "cgroup.procs", "50\n60\n")
    for pid in (50, 60):
        host.process(pid, used_s=1.0)
    meter = host.meter({0, 1, 2, 3})
    meter.read([50])
    host.passes(1.0, busy={0: 0.9})
    host.process(50, used_s=1.2)
    host.process(60, used_s=1.7)
    reading = meter.read([50])
    assert reading.own_cores == pytest.approx(0.2)
    assert reading.others_cores == pytest.approx(0.7)


def test_a_container_that_sees_its_own_group_as_the_root_finds_its_quota(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=4)
    host.groups("0::/kubepods/pod7/box\n")
    host.group_v2("", quota="200000")
    assert host.meter({0, 1, 2, 3}).read([]).capacity_cores == 2.0


def test_the_tightest_quota_of_the_groups_above_counts(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=8)
    host.groups("0::/pods/agent\n")
    host.group_v2("pods", quota="100000")
    host.group_v2("pods/agent", quota="400000")
    group = find_group(host.proc, host.cgroup)
    assert group is not None
    assert group.quota == host.cgroup / "pods"


@pytest.mark.parametrize("text", ["", "0::/\n", "1:cpu:/\n", "nonsense\n"])
def test_without_control_groups_or_quota_the_affinity_set_is_the_capacity(
    tmp_path: Path, text: str
) -> None:
    host = Host(tmp_path, cpus=3)
    host.groups(text)
    if not text:
        (host.proc / "self" / "cgroup").unlink()
    assert host.meter({0, 1, 2}).read([]).capacity_cores == 3.0


def test_a_group_that_vanishes_leaves_the_hosts_view(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=2)
    host.groups("0::/box\n")
    host.group_v2("box", quota="100000")
    meter = host.meter({0, 1})
    meter.read([])
    (host.cgroup / "box" / "cpu.max").unlink()
    (host.cgroup / "box" / "cpu.stat").unlink()
    host.passes(1.0, busy={0: 1.0})
    reading = meter.read([])
    assert (reading.capacity_cores, reading.others_cores) == (2.0, pytest.approx(1.0))


def test_processes_may_start_end_and_hand_on_their_number(tmp_path: Path) -> None:
    host = Host(tmp_path, cpus=1)
    host.process(50, used_s=7.0)
    times = ProcessTimes(host.proc)
    assert times.spent_s([50, 404]) == 0.0
    host.passes(1.0)
    host.process(50, used_s=7.5)
    host.process(51, used_s=0.25, start=1000.5)
    host.process(52, used_s=90.0, start=500.0)
    assert times.spent_s([50, 51, 52]) == pytest.approx(0.75)
    host.passes(1.0)
    (host.proc / "51" / "stat").unlink()
    host.process(50, used_s=0.125, start=1001.5)
    assert times.spent_s([50, 51, 52]) == pytest.approx(0.12, abs=0.011)


def test_without_a_procfs_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mount procfs"):
        CpuMeter(proc=tmp_path)


def test_on_this_host_a_busy_process_is_seen_as_its_own() -> None:
    meter = CpuMeter()
    before_s, before = time.process_time(), time.monotonic()
    meter.read([os.getpid()])
    after_s, after = time.process_time(), time.monotonic()
    while time.monotonic() < after + 0.3:
        pass
    least_s, shortest_s = time.process_time() - after_s, time.monotonic() - after
    reading = meter.read([os.getpid()])
    most_s, longest_s = time.process_time() - before_s, time.monotonic() - before
    assert reading.own_cores * longest_s >= least_s - 0.05
    assert reading.own_cores * shortest_s <= most_s + 0.05
    assert 0 <= reading.others_cores <= reading.capacity_cores <= (os.cpu_count() or 1)
