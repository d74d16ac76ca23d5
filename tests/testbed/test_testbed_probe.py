"""What a machine lacks is named at once, with what to do; what is not asked for may lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ConfigError
from testbed import Scenario, probe
from testbed.cgroups import Trees

PLAIN = 'name = "x"\n[[hosts]]\nrole = "trainer"\n'
DISK = PLAIN + 'disk = { profile = "ssd" }\n'
FAR = PLAIN + '[[hosts]]\nrole = "storage"\nsite = "away"\n[wan]\n'


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pretend to be root on a machine that has everything."""
    trees = Trees(version=2, cpu=tmp_path, cpuacct=tmp_path, io=tmp_path)
    monkeypatch.setattr("testbed.probe.os.geteuid", lambda: 0)
    monkeypatch.setattr("testbed.probe.shutil.which", lambda tool: tool)
    monkeypatch.setattr("testbed.probe.find_trees", lambda: trees)
    monkeypatch.setattr("testbed.probe._in_fresh_namespace", lambda script: None)
    monkeypatch.setattr("testbed.probe._opens", lambda device: True)


def _told(text: str) -> str:
    return "; ".join(f"{lack.what}: {lack.advice}" for lack in probe.lacks(Scenario.parse(text)))


def test_a_machine_that_has_everything_lacks_nothing() -> None:
    assert _told(DISK) == ""
    probe.require(Scenario.parse(FAR))


def test_users_who_are_not_root_are_told_so_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testbed.probe.os.geteuid", lambda: 1000)
    assert _told(DISK).startswith("you are not root: ")


def test_other_systems_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.probe.sys.platform", "darwin")
    assert "not Linux" in _told(PLAIN)


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.probe.shutil.which", lambda tool: None if "mkfs" in tool else tool)
    assert _told(PLAIN) == ""
    assert "no 'mkfs.ext4': install e2fsprogs" in _told(DISK)


@pytest.mark.parametrize(
    ("device", "needs_it", "does_without"),
    [("/dev/net/tun", FAR, DISK), ("/dev/loop-control", DISK, FAR)],
)
def test_a_device_is_missed_only_where_it_is_needed(
    device: str, needs_it: str, does_without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.probe._opens", lambda asked: asked != device)
    assert device in _told(needs_it)
    assert _told(does_without) == ""


def test_disks_that_cannot_be_throttled_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trees = Trees(version=1, cpu=tmp_path, cpuacct=tmp_path, io=None)
    monkeypatch.setattr("testbed.probe.find_trees", lambda: trees)
    assert "no throttling of disks" in _told(DISK)
    assert _told(PLAIN) == ""


def test_the_kernel_s_own_words_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(script: str) -> None:
        if "tbf" in script:
            raise ConfigError("Specified qdisc kind is unknown.")

    monkeypatch.setattr("testbed.probe._in_fresh_namespace", refuse)
    rated = PLAIN + "rate_mbit_per_s = 400\n"
    assert _told(PLAIN) == ""
    assert _told(rated) == "no token bucket queues (sch_tbf): Specified qdisc kind is unknown."


def test_all_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.probe._opens", lambda asked: False)
    monkeypatch.setattr("testbed.probe.shutil.which", lambda tool: None if tool == "tc" else tool)
    with pytest.raises(ConfigError) as raised:
        probe.require(Scenario.parse(DISK + '[[hosts]]\nrole = "storage"\nsite = "away"\n[wan]\n'))
    for what in ("scenario 'x' cannot run here", "no 'tc'", "/dev/net/tun", "/dev/loop-control"):
        assert what in str(raised.value)
