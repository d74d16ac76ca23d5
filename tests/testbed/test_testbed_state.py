"""Beds are claimed in one step, belong to a process, and are removed by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.core.errors import ConfigError
from testbed.names import BEDS, BedNames
from testbed.network import plan, token_bucket
from testbed.patience import until
from testbed.scenario import Scenario
from testbed.state import Owner, Record, Registry, this_boot


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "beds")


def _record(owner: Owner | None = None, boot: str | None = None) -> Record:
    return Record(name="x", owner=owner, boot=boot or this_boot())


def _dead_owner() -> Owner:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=-1) as process:
        text = Path(f"/proc/{process.pid}/stat").read_text()
        owner = Owner(pid=process.pid, started=int(text.rpartition(")")[2].split()[19]))
        assert owner.is_alive()
        process.communicate(b"\n")
    return owner


def test_each_claim_gets_a_number_of_its_own(registry: Registry) -> None:
    numbers = [registry.claim(_record(), has_room=lambda _: True) for _ in range(20)]
    assert sorted(numbers) == registry.numbers()
    assert len(set(numbers)) == 20


def test_threads_that_claim_at_once_share_no_number(registry: Registry) -> None:
    numbers: list[int] = []
    claim = lambda: numbers.append(registry.claim(_record(), has_room=lambda n: n < 10))  # noqa: E731
    threads = [threading.Thread(target=claim) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(numbers) == list(range(1, 10))


def test_a_number_without_room_is_passed_over_and_none_at_all_is_told(registry: Registry) -> None:
    assert registry.claim(_record(), has_room=lambda n: n == 42) == 42
    with pytest.raises(ConfigError, match=f"all {BEDS} beds are taken"):
        registry.claim(_record(), has_room=lambda n: n == 42)
    assert [path.name for path in registry.root.iterdir()] == ["42"]


def test_an_owner_that_only_waits_to_be_collected_has_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        text = Path(f"/proc/{process.pid}/stat").read_text()
        owner = Owner(pid=process.pid, started=int(text.rpartition(")")[2].split()[19]))
        process.kill()
        until(lambda: not owner.is_alive(), longest_s=5, what="it counts as alive")


def test_a_bed_is_abandoned_when_its_owner_has_ended(registry: Registry) -> None:
    dead = registry.claim(_record(_dead_owner()), has_room=lambda _: True)
    mine = registry.claim(_record(Owner.of_this_process()), has_room=lambda _: True)
    assert registry.is_abandoned(dead)
    assert not registry.is_abandoned(mine)


def test_another_process_with_the_owner_s_number_is_not_the_owner() -> None:
    mine = Owner.of_this_process()
    assert not Owner(pid=mine.pid, started=mine.started - 1).is_alive()


def test_a_bed_left_running_stays_until_the_machine_restarts(registry: Registry) -> None:
    kept = registry.claim(_record(), has_room=lambda _: True)
    earlier = registry.claim(_record(boot="another"), has_room=lambda _: True)
    assert not registry.is_abandoned(kept)
    assert registry.is_abandoned(earlier)


def test_a_bed_is_given_up_by_its_owner_in_one_step(registry: Registry) -> None:
    number = registry.claim(_record(_dead_owner()), has_room=lambda _: True)
    registry.rewrite(number, _record())
    assert not registry.is_abandoned(number)
    assert [path.name for path in registry.directory(number).iterdir()] == ["bed.json"]


def test_a_bed_whose_record_is_broken_is_abandoned(registry: Registry) -> None:
    number = registry.claim(_record(), has_room=lambda _: True)
    (registry.directory(number) / "bed.json").write_text("{")
    assert registry.is_abandoned(number)


def test_what_a_crash_in_the_middle_of_a_claim_or_a_removal_left_is_dropped(
    registry: Registry,
) -> None:
    dead = _dead_owner().pid
    mine = f".claim-{os.getpid()}-abc"
    for name in (mine, f".claim-{dead}-abc", f".gone-{dead}-abc/bed"):
        (registry.root / name).mkdir(parents=True)
    registry.drop_halves()
    assert [path.name for path in registry.root.iterdir()] == [mine]


def test_a_discarded_bed_leaves_no_file_and_frees_its_number(registry: Registry) -> None:
    number = registry.claim(_record(), has_room=lambda n: n == 7)
    (registry.directory(number) / "hosts/trainer-1").mkdir(parents=True)
    registry.discard(number)
    assert list(registry.root.iterdir()) == []
    assert registry.claim(_record(), has_room=lambda n: n == 7) == number


def test_only_one_process_at_a_time_may_remove_a_bed(registry: Registry) -> None:
    number = registry.claim(_record(), has_room=lambda _: True)
    order: list[str] = []

    def second() -> None:
        with registry.locked(number) as is_there:
            order.append(f"second {is_there}")

    with registry.locked(number) as is_there:
        thread = threading.Thread(target=second)
        thread.start()
        until(lambda: _handles(registry.directory(number)) == 2, longest_s=5, what="it never tried")
        order.append(f"first {is_there}")
        for path in registry.directory(number).iterdir():
            path.unlink()
        registry.directory(number).rmdir()
        registry.claim(_record(), has_room=lambda n: n == number)  # the number is used again
    thread.join(10)
    assert order == ["first True", "second False"]


def _handles(directory: Path) -> int:
    """Return how often this process has opened a directory."""
    links = [str(link) for link in Path("/proc/self/fd").iterdir()]
    return sum(os.path.realpath(link) == str(directory) for link in links)


def test_a_bed_that_is_gone_cannot_be_locked(registry: Registry) -> None:
    with registry.locked(7) as is_there:
        assert not is_there


def test_no_two_beds_share_a_name_or_a_network() -> None:
    beds = [BedNames(number=number) for number in (1, 11, 111)]
    for bed in beds:
        for other in beds:
            if bed is not other:
                assert not other.namespace("x").startswith(bed.namespace_prefix)
                assert not other.owner_link(0).startswith(bed.link_prefix)
                assert other.group != bed.group
                assert other.network(0) != bed.network(0)


def test_names_of_links_are_as_short_as_the_kernel_wants() -> None:
    assert len(BedNames(number=250).owner_link(1)) <= 15


def test_the_plan_of_a_network_names_only_what_belongs_to_the_bed() -> None:
    scenario = Scenario.parse('name = "x"\n[[hosts]]\nrole = "trainer"\nrate_mbit_per_s = 400\n')
    names = BedNames(number=9)
    batches = list(plan(names, scenario))
    assert {batch.namespace for batch in batches} == {
        None,
        names.switch("main"),
        names.namespace("trainer-1"),
    }
    owner_lines = [line for batch in batches if batch.namespace is None for line in batch.lines]
    assert all("hrbed9" in line for line in owner_lines)
    shaped = [line for batch in batches if batch.tool == "tc" for line in batch.lines]
    assert [line.split(" root ")[0] for line in shaped] == [
        "qdisc add dev trainer-1",
        "qdisc add dev eth0",
    ]


@pytest.mark.parametrize("rate", [1, 100, 400, 1000, 10_000])
def test_a_token_bucket_holds_a_whole_segment_at_every_rate(rate: int) -> None:
    _, _, _, _, burst, _, limit = token_bucket(rate).split()
    assert int(burst) >= 65_536 + 66 * 46  # as the kernel counts it: a header for each packet
    assert int(limit) >= 2 * int(burst)
