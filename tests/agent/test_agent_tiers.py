"""Which tier a place belongs to, and how tiers are written."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from headrace.agent.tiers import Tier, Tiers
from headrace.cli.tiers import TierForm
from headrace.core.errors import ConfigError


def _tier(name: str, *places: str, media: str = "hdd") -> Tier:
    return Tier(name=name, media=media, bytes_per_s=1e6, places=places)  # type: ignore[arg-type]


def test_a_place_belongs_to_the_tier_that_names_it_most_closely(tmp_path: Path) -> None:
    tiers = Tiers([_tier("slow", str(tmp_path)), _tier("fast", f"{tmp_path}/hot/", media="ssd")])
    assert tiers.of(f"{tmp_path}/a") == "slow"
    assert tiers.of(f"{tmp_path}/hot/photos") == "fast"
    assert tiers.of(f"{tmp_path}/hotter") == "slow"


def test_links_are_followed_before_places_are_compared(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    assert Tiers([_tier("slow", str(tmp_path / "data"))]).of(str(tmp_path / "disk")) == "slow"


def test_stores_are_compared_as_they_are_written() -> None:
    tiers = Tiers([_tier("far", "hdfs://warehouse/cold"), _tier("near")])
    assert tiers.of("hdfs://warehouse/cold/photos") == "far"
    assert tiers.of("hdfs://warehouse/warm/photos") == "near"


def test_what_lies_on_no_tier_is_taken_for_a_hard_disk_and_the_cache_for_flash() -> None:
    assert Tiers([]).of("/data") == "hdd"
    assert Tiers([_tier("only")]).of("/data") == "only"
    assert Tiers([_tier("only")]).of_cache("/mnt/nvme") == "ssd"
    assert Tiers([_tier("nvme", "/mnt/nvme")]).of_cache("/mnt/nvme/cache") == "nvme"


def test_links_hold_nothing_and_are_told_apart() -> None:
    tiers = Tiers([_tier("out", media="link"), _tier("disk")])
    assert tiers.links == ("out",)
    assert tiers.of("/data") == "disk"


def test_no_tier_is_called_as_agents_call_their_own_memory() -> None:
    with pytest.raises(ConfigError, match="their own memory; choose another name"):
        _tier("memory")


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        ([_tier("a"), _tier("b")], "name no places"),
        ([_tier("a", "/x"), _tier("a", "/y")], "the name a"),
        ([_tier("a", "/x"), _tier("b", "/x")], "the place /x"),
    ],
)
def test_tiers_that_contradict_each_other_are_refused(tiers: list[Tier], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Tiers(tiers)


@pytest.mark.parametrize(
    ("text", "name", "media", "rate", "places"),
    [
        ("hdd=150MB/s:/data", "hdd", "hdd", 150e6, ("/data",)),
        ("fast:ssd=2GiB/s:/a,/b", "fast", "ssd", 2 * 2**30, ("/a", "/b")),
        ("hdd=1000", "hdd", "hdd", 1000.0, ()),
        ("link=1GB/s", "link", "link", 1e9, ()),
        ("far:hdd=1GB/s:hdfs://nn:8020/x", "far", "hdd", 1e9, ("hdfs://nn:8020/x",)),
    ],
)
def test_a_tier_is_read_as_people_write_it(
    text: str, name: str, media: str, rate: float, places: tuple[str, ...]
) -> None:
    expected = Tier(name=name, media=media, bytes_per_s=rate, places=places)  # type: ignore[arg-type]
    assert TierForm().convert(text, None, None) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hdd", "not of the form"),
        ("tape=1GB/s", "choose ssd, hdd or link"),
        ("hdd=fast", "not a size"),
        ("hdd=0", "more than 0"),
        ("a b:hdd=1GB/s", "a name has"),
        ("link=1GB/s:/data", "nothing lies on a link"),
    ],
)
def test_what_is_no_tier_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(click.BadParameter, match=said):
        TierForm().convert(text, None, None)
