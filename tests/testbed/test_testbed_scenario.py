"""A scenario is read strictly: what is left out is a default, what is wrong is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ConfigError, NotFoundError
from testbed import Scenario

SMALL = """
name = "small"
[[hosts]]
role = "namenode"
[[hosts]]
role = "storage"
count = 3
cpus = 0.4
rate_mbit_per_s = 1000
disk = { profile = "hdd", read_iops = 200 }
[[hosts]]
role = "trainer"
"""

TWO_SITES = """
name = "far"
[[hosts]]
role = "storage"
site = "home"
[[hosts]]
role = "trainer"
site = "away"
[wan]
delay_ms = 15
rate_mbit_per_s = 600
"""


def test_hosts_are_named_by_their_role_and_numbered_in_their_site() -> None:
    specs = list(Scenario.parse(SMALL).specs())
    assert [spec.name for spec in specs] == [
        "namenode-1",
        "storage-1",
        "storage-2",
        "storage-3",
        "trainer-1",
    ]
    assert [spec.number for spec in specs] == [1, 2, 3, 4, 5]


def test_a_group_can_have_a_name_of_its_own() -> None:
    text = SMALL + '[[hosts]]\nrole = "storage"\nname = "spare"\n'
    assert list(Scenario.parse(text).specs())[-1].name == "spare-1"


def test_a_disk_has_its_profile_s_limits_where_it_does_not_say_otherwise() -> None:
    (_, storage, _) = Scenario.parse(SMALL).hosts
    assert storage.disk is not None
    limits = storage.disk.limits
    assert limits.read_iops == 200
    assert limits.read_bytes_per_s == 160_000_000


def test_a_custom_disk_has_only_the_limits_it_names() -> None:
    text = 'name = "x"\n[[hosts]]\nrole = "storage"\ndisk = { profile = "custom", write_iops = 9 }'
    (group,) = Scenario.parse(text).hosts
    assert group.disk is not None
    assert (group.disk.limits.write_iops, group.disk.limits.read_iops) == (9, None)


def test_each_site_numbers_its_own_hosts() -> None:
    scenario = Scenario.parse(TWO_SITES)
    assert scenario.sites == ("home", "away")
    assert [spec.number for spec in scenario.specs()] == [1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("cpus", "cpu"), "unknown key 'cpu' in hosts; did you mean 'cpus'?"),
        (("read_iops", "read_iop"), "did you mean 'read_iops'"),
        (("[[hosts]]", "[[host]]"), "unknown key 'host' in the scenario; did you mean 'hosts'?"),
        (("count = 3", "count = 0"), "count=0 must be 1 to 200"),
        (("cpus = 0.4", "cpus = 0"), "cpus=0"),
        (("cpus = 0.4", "cpus = nan"), "cpus=nan"),
        (("cpus = 0.4", 'cpus = "many"'), "Expected `float"),
        (("rate_mbit_per_s = 1000", "rate_mbit_per_s = -1"), "rate_mbit_per_s=-1"),
        (('"hdd"', '"tape"'), "Invalid enum value 'tape'"),
        (("read_iops = 200", "read_iops = 0"), "disk.read_iops=0 must be at least 1"),
        (("read_iops = 200", "size_gb = 0"), "disk.size_gb=0"),
        (('"trainer"', '"train"'), "Invalid enum value 'train'"),
        (('"trainer"', '"storage"'), "name='storage-1' must be different"),
        (('name = "small"', ""), "lacks the key 'name'"),
        (('"trainer"', '"trainer"\nsite = "b"'), "wan=None"),
        (('"trainer"', '"trainer"\nname = "UP"'), "name='UP'"),
        (('name = "small"', "name ="), "is not TOML"),
        (('name = "small"', 'name = "small"\nwan = 3'), "wan must be a table"),
    ],
)
def test_what_is_wrong_is_refused_by_name(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Scenario.parse(SMALL.replace(*change), source="small.toml")
    assert message in str(raised.value)
    assert str(raised.value).startswith("small.toml")


def test_more_than_two_sites_are_refused() -> None:
    third = '[[hosts]]\nrole = "storage"\nname = "c"\nsite = "third"\n'
    with pytest.raises(ConfigError, match="at most two"):
        Scenario.parse(TWO_SITES.replace("[wan]", third + "[wan]"))


def test_a_line_needs_two_sites() -> None:
    with pytest.raises(ConfigError, match="exactly if hosts name two sites"):
        Scenario.parse(SMALL + "[wan]\ndelay_ms = 1\n")


def test_hosts_that_are_no_array_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"write \[\[hosts\]\]"):
        Scenario.parse('name = "x"\n[hosts]\nrole = "storage"\n')


def test_a_scenario_that_is_not_there_is_told_apart_from_a_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no scenario"):
        Scenario.load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="is no scenario"):
        Scenario.load(tmp_path)


def test_every_shipped_scenario_can_be_read() -> None:
    files = list((Path(__file__).parents[2] / "testbed" / "scenarios").glob("*.toml"))
    assert {Scenario.load(file).name for file in files} == {file.stem for file in files}
