from __future__ import annotations

from pathlib import Path

import pytest

from headrace.agent.roots import OutsideRootsError, Roots
from headrace.core.errors import ConfigError, NotFoundError


@pytest.fixture
def served(tmp_path: Path) -> Path:
    (tmp_path / "served" / "set").mkdir(parents=True)
    (tmp_path / "served-not").mkdir()
    (tmp_path / "served" / "out").symlink_to(tmp_path / "served-not")
    (tmp_path / "in").symlink_to(tmp_path / "served" / "set")
    return tmp_path / "served"


def test_a_dataset_inside_a_root_is_found_by_path_by_url_and_through_a_link(served: Path) -> None:
    roots = Roots([served])
    expected = (str(served / "set"), str(served))
    assert roots.locate(f"{served}/set") == expected
    assert roots.locate(f"file://{served}/set/") == expected
    assert roots.locate(f"{served.parent}/in") == expected
    assert roots.locate(str(served)) == (str(served), str(served))


@pytest.mark.parametrize(
    "escape", ["{0}/../served-not", "{0}/out", "{0}-not", "/etc", "{0}/set/../../nothing"]
)
def test_nothing_outside_the_roots_can_be_named(served: Path, escape: str) -> None:
    with pytest.raises(OutsideRootsError, match="--root"):
        Roots([served]).locate(escape.format(served))


@pytest.mark.parametrize("url", ["s3://bucket/x", "relative/path", "", "/a\0b", "file:///a%00b"])
def test_what_is_no_place_on_this_host_is_refused(served: Path, url: str) -> None:
    with pytest.raises(OutsideRootsError):
        Roots([served]).locate(url)


def test_a_missing_dataset_inside_a_root_is_said_to_be_missing(served: Path) -> None:
    with pytest.raises(NotFoundError):
        Roots([served]).locate(f"{served}/nothing")


def test_a_root_that_is_not_there_stops_the_agent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a directory"):
        Roots([tmp_path / "nothing"])
    with pytest.raises(ConfigError, match="--root"):
        Roots([])
