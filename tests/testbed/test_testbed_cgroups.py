"""Both versions of control groups get the right values in the right files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.core.errors import ConfigError
from testbed.cgroups import (
    Group,
    Trees,
    cpu_settings,
    disk_settings,
    find_trees,
    limit_writeback,
    weight_settings,
)
from testbed.disk_profiles import DiskLimits
from testbed.errors import TestbedError

LIMITS = DiskLimits(read_bytes_per_s=50_000_000, read_iops=100)


def _mountinfo(tmp_path: Path, *mounts: tuple[str, Path, str]) -> Path:
    lines = [f"30 23 0:26 / {path} rw - {kind} none rw,{options}" for kind, path, options in mounts]
    file = tmp_path / "mountinfo"
    file.write_text("\n".join(lines))
    return file


@pytest.fixture
def second(tmp_path: Path) -> Trees:
    root = tmp_path / "second"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    return find_trees(_mountinfo(tmp_path, ("cgroup2", root, "nsdelegate")))


@pytest.fixture
def first(tmp_path: Path) -> Trees:
    for name in ("cpu,cpuacct", "blkio", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "blkio/blkio.throttle.read_bps_device").touch()
    (tmp_path / "unified/cgroup.controllers").write_text("\n")
    mounts = (
        ("cgroup", tmp_path / "cpu,cpuacct", "cpu,cpuacct"),
        ("cgroup", tmp_path / "blkio", "blkio"),
        ("cgroup2", tmp_path / "unified", ""),
    )
    return find_trees(_mountinfo(tmp_path, *mounts))


def test_a_unified_tree_is_version_2(second: Trees) -> None:
    assert second.version == 2
    assert second.io is not None
    assert len(second.roots) == 1


def test_a_unified_tree_without_controllers_leaves_version_1(first: Trees) -> None:
    assert first.version == 1
    assert [root.name for root in first.roots] == ["cpu,cpuacct", "blkio"]


def test_a_block_tree_that_cannot_throttle_is_none(first: Trees, tmp_path: Path) -> None:
    (tmp_path / "blkio/blkio.throttle.read_bps_device").unlink()
    assert find_trees(tmp_path / "mountinfo").io is None


def test_a_machine_without_a_cpu_controller_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no control group tree with a CPU controller"):
        find_trees(_mountinfo(tmp_path, ("proc", tmp_path, "")))


def test_a_quota_is_a_part_of_a_short_period() -> None:
    assert cpu_settings(1, 0.4) == [("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "8000")]
    assert cpu_settings(2, 1.5) == [("cpu.max", "30000 20000")]


def test_a_quota_is_never_below_what_the_kernel_takes() -> None:
    assert cpu_settings(2, 0.01) == [("cpu.max", "1000 20000")]


def test_a_bed_weighs_as_much_as_its_hosts() -> None:
    assert weight_settings(1, 5) == [("cpu.shares", "5120")]
    assert weight_settings(2, 5) == [("cpu.weight", "500")]
    assert weight_settings(2, 400) == [("cpu.weight", "10000")]


def test_disk_limits_are_one_line_in_version_2() -> None:
    assert disk_settings(2, "7:1", LIMITS) == [
        ("io.max", "7:1 rbps=50000000 wbps=max riops=100 wiops=max")
    ]


def test_disk_limits_are_four_files_in_version_1_and_zero_is_no_limit() -> None:
    assert dict(disk_settings(1, "7:1", LIMITS)) == {
        "blkio.throttle.read_bps_device": "7:1 50000000",
        "blkio.throttle.write_bps_device": "7:1 0",
        "blkio.throttle.read_iops_device": "7:1 100",
        "blkio.throttle.write_iops_device": "7:1 0",
    }


def test_controllers_are_handed_down_to_a_host_in_version_2(second: Trees) -> None:
    group = Group(second, "headrace-testbed-9/storage-1")
    group.make()
    group.limit_cpu(0.5)
    group.limit_disk("7:1", LIMITS)
    bed = second.cpu / "headrace-testbed-9"
    assert (second.cpu / "cgroup.subtree_control").read_text() == "+cpu +io"
    assert (bed / "cgroup.subtree_control").read_text() == "+cpu +io"
    assert not (bed / "storage-1/cgroup.subtree_control").exists()
    assert (bed / "storage-1/cpu.max").read_text() == "10000 20000"
    assert (bed / "storage-1/io.max").read_text().startswith("7:1 ")


def test_a_host_is_a_directory_in_each_tree_of_version_1(first: Trees) -> None:
    group = Group(first, "headrace-testbed-9/storage-1")
    group.make()
    group.limit_cpu(0.5)
    assert all(directory.is_dir() for directory in group.directories)
    assert (group.directories[0] / "cpu.cfs_quota_us").read_text() == "10000"


def test_only_version_1_limits_what_the_kernel_writes_for_others(
    first: Trees, second: Trees
) -> None:
    limits = DiskLimits(write_bytes_per_s=9_000_000)
    limit_writeback(first, "7:1", limits)
    limit_writeback(second, "7:1", limits)
    assert first.io is not None
    assert (first.io / "blkio.throttle.write_bps_device").read_text() == "7:1 9000000"
    assert (first.io / "blkio.throttle.read_bps_device").read_text() == ""
    assert second.io is not None
    assert not (second.io / "io.max").exists()


def test_cpu_time_is_read_in_both_versions(first: Trees, second: Trees) -> None:
    for trees, file, text in (
        (first, "cpuacct.usage", "2500000000\n"),
        (second, "cpu.stat", "nr_periods 3\nusage_usec 2500000\nuser_usec 9\n"),
    ):
        group = Group(trees, "bed/host")
        group.make()
        (trees.cpuacct / "bed/host" / file).write_text(text)
        assert group.cpu_seconds() == pytest.approx(2.5)


def test_the_members_of_a_bed_are_those_of_its_hosts(second: Trees) -> None:
    for host, pids in (("a", "11\n12\n"), ("b", "13\n")):
        Group(second, f"bed/{host}").make()
        (second.cpu / "bed" / host / "cgroup.procs").write_text(pids)
    (inner := second.cpu / "bed" / "b" / "made" / "by-a-program").mkdir(parents=True)
    (inner / "cgroup.procs").write_text("14\n")
    assert Group(second, "bed").members() == {11, 12, 13, 14}
    assert Group(second, "gone").members() == set()


def test_a_command_enters_every_tree_before_it_becomes_the_program(first: Trees) -> None:
    group = Group(first, "bed/host")
    group.make()
    argv = group.command(["sh", "-c", "echo $$ $1", "name", "a word"])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        told, _ = process.communicate(timeout=10)
    assert told.strip() == f"{process.pid} a word"
    entered = {(path / "cgroup.procs").read_text().strip() for path in group.directories}
    assert entered == {str(process.pid)}


def test_a_command_does_not_run_outside_its_group(second: Trees) -> None:
    done = subprocess.run(Group(second, "gone").command(["true"]), check=False, timeout=10)
    assert done.returncode != 0


def test_a_refused_value_names_the_file_and_the_advice(second: Trees) -> None:
    group = Group(second, "bed/host")
    group.make()
    (second.cpu / "bed/host/cpu.max").mkdir()
    with pytest.raises(TestbedError, match=r"cpu\.max failed .* root"):
        group.limit_cpu(1)
