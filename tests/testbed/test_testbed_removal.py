"""Nothing of a bed stays: not after its end, nor after its owner was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.core.errors import ConfigError
from testbed import Scenario, Testbed, removal
from testbed.cgroups import find_trees
from testbed.errors import TestbedError
from testbed.names import BedNames
from testbed.patience import until
from testbed.state import Registry

ROOT = Path(__file__).parents[2]

CYCLES = int(os.environ.get("HEADRACE_TESTBED_CYCLES", "5"))
"""Starts and stops; a hundred take half a minute on two idle cores."""

EVERYTHING = """
name = "everything"
[[hosts]]
role = "storage"
count = 2
cpus = 0.5
rate_mbit_per_s = 400
disk = { profile = "ssd", size_gb = 0.1 }
site = "home"
[[hosts]]
role = "trainer"
site = "away"
[wan]
"""

pytestmark = pytest.mark.usefixtures("machine")


def _machine_state() -> set[str]:
    """Return all that this machine has of the kinds that a bed makes."""
    trees = find_trees()
    listing = subprocess.run(
        ["ip", "-j", "link", "show"], capture_output=True, text=True, check=True, timeout=10
    )
    return {
        *(f"namespace {path.name}" for path in Path("/run/netns").glob("*")),
        *(f"link {link['ifname']}" for link in json.loads(listing.stdout)),
        *(f"group {path}" for root in trees.roots for path in root.glob("headrace*")),
        *(f"loop {path.read_text().strip()}" for path in _backing_files()),
        *(f"mount {line.split()[4]}" for line in _lines("/proc/self/mountinfo")),
        *(f"directory {path}/" for path in Registry().root.glob("*")),
        *(f"limit {line}" for line in _root_limits(trees.io)),
        *(f"process {told}" for told in _processes()),
    }


def _backing_files() -> Iterator[Path]:
    return Path("/sys/block").glob("loop*/loop/backing_file")


def _lines(file: str) -> list[str]:
    return Path(file).read_text().splitlines()


def _root_limits(tree: Path | None) -> list[str]:
    files = tree.glob("blkio.throttle.*_device") if tree else ()
    return [f"{file.name} {line}" for file in files for line in _lines(str(file))]


def _processes() -> Iterator[str]:
    """Yield this process's descendants, and what else works for a bed."""
    own = {child.pid for child in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if process.pid in own or ("testbed" in line.split(" -- ")[0] and str(ROOT) in line):
            yield f"{process.pid} {line}"


def _of_other_beds(item: str, others: list[int]) -> bool:
    """Return whether something belongs to a bed that another process has now."""
    words = [f"hrbed{n}-" for n in others] + [f"hrbed{n}s" for n in others]
    words += [f"headrace-testbed-{n}" for n in others] + [f"headrace-testbed/{n}/" for n in others]
    return bool(others) and (item.startswith(("limit", "process")) or any(w in item for w in words))


def _appeared(before: set[str]) -> set[str]:
    """Return what is new, and not other beds'."""
    registry = Registry()
    others = [number for number in registry.numbers() if not registry.is_abandoned(number)]
    return {item for item in _machine_state() - before if not _of_other_beds(item, others)}


def _expect_as(before: set[str]) -> None:
    """Fail unless the machine comes to look as before; the kernel frees namespaces in a while."""
    try:
        until(lambda: not _appeared(before), longest_s=30, what="something stays")
    finally:
        assert _appeared(before) == set()


@pytest.fixture
def before() -> set[str]:
    return _machine_state()


def _pretend_to_work(bed: Testbed) -> None:
    for host in bed.hosts.values():
        host.launch([sys.executable, "-I", "-S", "-c", "while True: pass"])
        host.launch(["sh", "-c", "sleep 60 & exec sleep 60"])


@pytest.mark.slow
def test_start_and_stop_leave_nothing_however_often(before: set[str]) -> None:
    for _ in range(CYCLES):
        with Testbed(Scenario.parse(EVERYTHING)) as bed:
            _pretend_to_work(bed)
        assert bed.hosts == {}
    _expect_as(before)


def test_a_bed_that_is_up_is_seen_by_the_check_for_what_stays(before: set[str]) -> None:
    with Testbed(Scenario.parse(EVERYTHING)) as bed:
        number = bed.number
        seen = _machine_state() - before
    kinds = {item.split()[0] for item in seen if str(number) in item or item.startswith("process")}
    assert kinds >= {"namespace", "link", "group", "loop", "mount", "directory", "process"}


def test_an_error_inside_leaves_nothing(before: set[str]) -> None:
    with pytest.raises(ZeroDivisionError), Testbed(Scenario.parse(EVERYTHING)) as bed:
        _pretend_to_work(bed)
        1 / 0  # noqa: B018
    _expect_as(before)


def test_a_start_that_fails_half_way_leaves_nothing(
    before: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise TestbedError("no line today")

    monkeypatch.setattr("testbed.wan.join", refuse)
    with pytest.raises(TestbedError, match="no line today"), Testbed(Scenario.parse(EVERYTHING)):
        pass
    _expect_as(before)


_OWNER = """
import sys
sys.path.insert(0, sys.argv[1])
from testbed import Scenario, Testbed
with Testbed(Scenario.parse(sys.argv[2])) as bed:
    for host in bed.hosts.values():
        host.launch(["sh", "-c", "sleep 600 & exec sleep 600"])
    print(bed.number, flush=True)
    sys.stdin.read()
"""


def _start_owner(source: str = _OWNER) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", source, str(ROOT), EVERYTHING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def _bury(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=10)


def _is_gone(number: int) -> bool:
    names, directory = BedNames(number=number), Registry().directory(number)
    return not directory.exists() and not removal.look(names, directory, find_trees())


def test_a_killed_owner_s_bed_is_removed_at_once_by_its_guardian(before: set[str]) -> None:
    owner, number = _start_owner()
    assert not _is_gone(number)
    _bury(owner)
    until(lambda: _is_gone(number), longest_s=60, what="the bed is still there")
    _expect_as(before)


def test_a_bed_that_is_kept_outlives_its_owner_until_it_is_taken_down(before: set[str]) -> None:
    source = _OWNER.replace("    print(", "    bed.keep(sys.argv[2])\n    print(")
    owner, number = _start_owner(source)
    _bury(owner)
    kept = Testbed.attach(number)
    assert kept.hosts["storage-1"].processes()
    assert kept.hosts["storage-1"].disk is not None
    kept.remove()
    _expect_as(before)


def test_if_the_guardian_is_killed_too_the_next_start_removes_the_bed(before: set[str]) -> None:
    owner, number = _start_owner()
    guardians = [
        child
        for child in psutil.Process(owner.pid).children()
        if "testbed.guardian" in child.cmdline()
    ]
    assert len(guardians) == 1
    guardians[0].send_signal(signal.SIGKILL)
    _bury(owner)
    left = removal.look(BedNames(number=number), Registry().directory(number), find_trees())
    assert left.processes
    assert left.mounts
    with Testbed(Scenario.parse('name = "next"\n[[hosts]]\nrole = "trainer"\n')):
        until(lambda: _is_gone(number), longest_s=60, what="the bed is still there")
    _expect_as(before)


def test_a_leftover_that_resists_does_not_keep_a_new_bed_from_being(
    before: set[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def resist(registry: Registry) -> list[int]:
        raise TestbedError("bed 99 is not gone")

    monkeypatch.setattr("testbed.removal.remove_abandoned", resist)
    with Testbed(Scenario.parse(EVERYTHING)) as bed:
        assert bed.hosts
    assert "bed 99 is not gone" in caplog.text
    _expect_as(before)


def test_one_leftover_that_resists_does_not_keep_others_from_being_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in ("3", "5", "7"):
        (tmp_path / number).mkdir()
    tried: list[int] = []

    def remove(registry: Registry, number: int, *, only_if_abandoned: bool) -> bool:
        tried.append(number)
        if number == 3:
            raise TestbedError("bed 3 is not gone")
        return only_if_abandoned

    monkeypatch.setattr("testbed.removal.remove", remove)
    with pytest.raises(TestbedError, match="bed 3 is not gone"):
        removal.remove_abandoned(Registry(tmp_path))
    assert tried == [3, 5, 7]


def test_frozen_processes_and_a_busy_disk_do_not_keep_a_bed(before: set[str]) -> None:
    with Testbed(Scenario.parse(EVERYTHING)) as bed:
        host = bed.hosts["storage-1"]
        host.launch(["dd", "if=/dev/zero", f"of={host.directory}/f", "bs=64k", "oflag=direct"])
        host.freeze()
    _expect_as(before)


def test_removing_twice_is_harmless(before: set[str]) -> None:
    bed = Testbed(Scenario.parse(EVERYTHING))
    with bed:
        number = bed.number
        bed.remove()
        assert not removal.remove(Registry(), number)
    _expect_as(before)


def test_what_the_kernel_lacks_is_named_before_anything_is_made(
    before: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.probe.shutil.which", lambda tool: None if tool == "tc" else tool)
    with (
        pytest.raises(ConfigError, match=r"'everything' cannot run here\. no 'tc': install"),
        Testbed(Scenario.parse(EVERYTHING)),
    ):
        pass
    _expect_as(before)


def test_two_beds_at_once_do_not_see_each_other() -> None:
    with Testbed(Scenario.parse(EVERYTHING)) as one, Testbed(Scenario.parse(EVERYTHING)) as two:
        host, other = one.hosts["storage-1"], two.hosts["storage-1"]
        assert host.ip != other.ip
        with pytest.raises(TestbedError, match="unreachable"):
            host.run([sys.executable, "-I", "-S", "-c", _CONNECT, other.ip])


_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 5001), timeout=2)"
