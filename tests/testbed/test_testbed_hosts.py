"""Hosts have the rates, quotas and disks that the scenario says, and faults do what they say."""

from __future__ import annotations

import signal
import socket
import sys
import time
from functools import partial

import pytest
from testbed_programs import (
    PYTHON,
    READ,
    READ_AT_RANDOM,
    WRITE,
    closest,
    number,
    received_bytes_per_s,
    round_trips_s,
)

from headrace.core.errors import ConfigError, DeadlineError
from testbed import Host, Testbed, faults
from testbed.disk_profiles import DiskLimits
from testbed.errors import TestbedError
from testbed.patience import until


@pytest.fixture
def storage(bed: Testbed) -> Host:
    return bed.hosts["storage-1"]


@pytest.fixture
def trainer(bed: Testbed) -> Host:
    return bed.hosts["trainer-1"]


@pytest.fixture
def disk_host(bed: Testbed) -> Host:
    return bed.hosts["disk-1"]


def _used_cores(host: Host, seconds: float = 1.0) -> float:
    before, began = host.cpu_seconds(), time.monotonic()
    time.sleep(seconds)  # the length of the measurement
    return (host.cpu_seconds() - before) / (time.monotonic() - began)


def test_a_host_sends_and_receives_at_its_rate(storage: Host, trainer: Host) -> None:
    for sender, receiver in ((storage, trainer), (trainer, storage)):
        rate = closest(25e6, partial(received_bytes_per_s, sender, receiver, 0.8))
        assert rate == pytest.approx(25e6, rel=0.15)


def test_a_link_that_is_given_another_rate_has_it_both_ways(storage: Host, trainer: Host) -> None:
    storage.limit_link(80)
    try:
        for sender, receiver in ((storage, trainer), (trainer, storage)):
            rate = closest(10e6, partial(received_bytes_per_s, sender, receiver, 0.8))
            assert rate == pytest.approx(10e6, rel=0.15)
    finally:
        storage.limit_link(200)
    with pytest.raises(ConfigError, match="trainer-1 has no rate"):
        trainer.limit_link(80)


def test_hosts_are_close_to_each_other(storage: Host, trainer: Host) -> None:
    shortest, _ = round_trips_s(storage, trainer, 20)
    assert shortest < 0.005


def test_network_bytes_count_what_was_sent(storage: Host, trainer: Host) -> None:
    sent, received = storage.network_bytes().sent, trainer.network_bytes().received
    rate = received_bytes_per_s(storage, trainer, 0.2)
    assert storage.network_bytes().sent - sent > 0.1 * rate
    assert trainer.network_bytes().received - received > 0.1 * rate


def test_a_host_uses_no_more_cpu_than_its_quota(storage: Host) -> None:
    with faults.burn_cpu(storage, 200):
        used = closest(0.4, partial(_used_cores, storage))
    assert used == pytest.approx(0.4, rel=0.15)


def test_a_burner_uses_the_share_of_a_core_it_was_told(trainer: Host) -> None:
    with faults.burn_cpu(trainer, 25):
        used = closest(0.25, partial(_used_cores, trainer))
    assert used == pytest.approx(0.25, rel=0.15)
    assert _used_cores(trainer, 0.2) < 0.05


def test_a_burner_refuses_a_share_that_is_none(trainer: Host) -> None:
    with pytest.raises(ConfigError, match="percent_of_core"):
        faults.burn_cpu(trainer, 0)


@pytest.fixture(scope="module")
def file(bed: Testbed) -> str:
    path = bed.hosts["disk-1"].directory / "file"
    number(bed.hosts["disk-1"], WRITE, path, 24)
    return str(path)


def _read_bytes_per_s(host: Host, file: str) -> float:
    assert host.disk is not None
    host.disk.drop_cache()
    return number(host, READ, file)


def test_a_disk_reads_at_its_bandwidth(disk_host: Host, file: str) -> None:
    rate = closest(40e6, partial(_read_bytes_per_s, disk_host, file))
    assert rate == pytest.approx(40e6, rel=0.15)


def test_a_disk_writes_at_its_bandwidth(disk_host: Host) -> None:
    file = disk_host.directory / "written"
    rate = closest(20e6, partial(number, disk_host, WRITE, file, 15))
    assert rate == pytest.approx(20e6, rel=0.15)


def test_a_disk_does_no_more_operations_than_it_can(disk_host: Host, file: str) -> None:
    def operations_per_s() -> float:
        assert disk_host.disk is not None
        disk_host.disk.drop_cache()
        return number(disk_host, READ_AT_RANDOM, file, 80)

    assert closest(80, operations_per_s) == pytest.approx(80, rel=0.15)


def test_what_was_written_in_the_background_is_written_at_the_same_rate(disk_host: Host) -> None:
    disk_host.run([*PYTHON, _LEAVE_DIRTY, str(disk_host.directory / "dirty"), "20"])
    began = time.monotonic()
    assert disk_host.disk is not None
    disk_host.disk.drop_cache()
    assert time.monotonic() - began > 0.5 * 20 * (1 << 20) / 20e6


def test_a_slow_disk_is_slow_until_the_fault_ends(disk_host: Host, file: str) -> None:
    read = partial(_read_bytes_per_s, disk_host, file)
    with faults.disk_slowed(disk_host, DiskLimits(read_bytes_per_s=15_000_000)):
        assert closest(15e6, read) == pytest.approx(15e6, rel=0.15)
    assert closest(40e6, read) == pytest.approx(40e6, rel=0.15)


def test_a_host_without_a_disk_has_none_to_slow_down(trainer: Host) -> None:
    with (
        pytest.raises(ConfigError, match="no disk of its own"),
        faults.disk_slowed(trainer, DiskLimits()),
    ):
        pass


def test_what_a_cut_host_is_sent_is_lost_in_silence(storage: Host, trainer: Host) -> None:
    with faults.link_cut(storage), pytest.raises(TestbedError, match="timed out"):
        trainer.run([*PYTHON, _CONNECT, storage.ip, "0.5"])
    assert round_trips_s(trainer, storage, 3)[0] < 0.1


def test_a_connection_survives_a_short_cut(storage: Host, trainer: Host) -> None:
    healing = faults.cut_link_for(storage, 0.5)
    shortest, longest = round_trips_s(storage, trainer, 20)
    healing.join(10)
    assert shortest < 0.05
    assert longest > 0.2 or healing.finished.is_set()


def test_a_frozen_host_does_nothing_until_it_is_thawed(storage: Host) -> None:
    process = storage.launch([sys.executable, "-I", "-S", "-c", "while True: pass"])
    storage.freeze()
    used = _used_cores(storage, 0.2)
    storage.thaw()
    until(lambda: _used_cores(storage, 0.1) > 0.05, longest_s=10, what="it stays frozen")
    storage.kill()
    assert used < 0.01
    assert process.returncode == -signal.SIGKILL


def test_a_frozen_host_can_be_killed(storage: Host) -> None:
    processes = [storage.launch(["sleep", "60"]) for _ in range(3)]
    storage.freeze()
    storage.kill()
    assert storage.processes() == set()
    assert {process.poll() for process in processes} == {-signal.SIGKILL}


def test_one_process_can_be_frozen_and_killed(storage: Host) -> None:
    process = storage.launch(["sleep", "60"])
    faults.freeze(process)
    faults.thaw(process)
    faults.kill(process)
    assert process.returncode == -signal.SIGKILL


def test_a_launched_process_has_its_number_its_log_and_the_environment_it_was_given(
    storage: Host,
) -> None:
    log = storage.directory / "told.log"
    process = storage.launch(["sh", "-c", "echo $$ $WORD; pwd"], {"WORD": "given"}, log)
    assert process.wait(10) == 0
    assert log.read_text().splitlines() == [f"{process.pid} given", str(storage.directory)]


def test_a_command_that_fails_is_told_with_its_own_words(storage: Host) -> None:
    with pytest.raises(TestbedError, match="storage-1 ended with 3 and said: no such luck"):
        storage.run(["sh", "-c", "echo no such luck >&2; exit 3"])


def test_a_command_that_does_not_end_is_killed(storage: Host) -> None:
    with pytest.raises(DeadlineError, match=r"within 0\.2 s"):
        storage.run(["sleep", "60"], longest_s=0.2)
    until(lambda: not storage.processes(), longest_s=5, what="it still runs")


def test_the_owner_reaches_hosts_too(bed: Testbed, storage: Host) -> None:
    server = "import socket; s = socket.create_server(('', 5003)); s.accept()[0].sendall(b'hello')"
    process = storage.launch([*PYTHON, server])
    until(lambda: _greeting(storage.ip) == b"hello", longest_s=10, what="the host does not answer")
    assert process.wait(10) == 0


def _greeting(ip: str) -> bytes:

    try:
        with socket.create_connection((ip, 5003), timeout=5) as link:
            return link.recv(5)
    except ConnectionRefusedError:
        return b""


_LEAVE_DIRTY = """
import sys
with open(sys.argv[1], "wb") as file:
    for _ in range(int(sys.argv[2])):
        file.write(bytes(1 << 20))
"""

_CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], 5009), timeout=float(sys.argv[2]))
"""
