from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.roots import Located, OutsideRootsError, Roots, open_located
from headrace.core.errors import CallerError, ConfigError, NotFoundError

STORE = "hdfs://nn:8020/data"
ROOTS = Roots([], [STORE])


@pytest.fixture
def served(tmp_path: Path) -> Path:
    (tmp_path / "served" / "set").mkdir(parents=True)
    (tmp_path / "served-not").mkdir()
    (tmp_path / "served" / "out").symlink_to(tmp_path / "served-not")
    (tmp_path / "in").symlink_to(tmp_path / "served" / "set")
    return tmp_path / "served"


def test_a_dataset_inside_a_root_is_found_by_path_by_url_and_through_a_link(served: Path) -> None:
    roots = Roots([served])
    expected = Located(str(served / "set"), str(served))
    assert roots.locate(f"{served}/set") == expected
    assert roots.locate(f"file://{served}/set/") == expected
    assert roots.locate(f"{served.parent}/in") == expected
    assert roots.locate(str(served)) == Located(str(served), str(served))


@pytest.mark.parametrize(
    "escape", ["{0}/../served-not", "{0}/out", "{0}-not", "/etc", "{0}/set/../../nothing"]
)
def test_nothing_outside_the_roots_can_be_named(served: Path, escape: str) -> None:
    with pytest.raises(OutsideRootsError, match="--root"):
        Roots([served]).locate(escape.format(served))


@pytest.mark.parametrize(
    "url", ["s3://bucket/x", "relative/path", "", "/a\0b", "file:///a%00b", "hdfs:/data", "//[x"]
)
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


@pytest.mark.parametrize(
    "root", ["/data", "data", "hdfs:/data", "hdfs://nn:x/data", "hdfs://nn/a/../b", "file:///data"]
)
def test_a_store_that_is_none_stops_the_agent(root: str) -> None:
    with pytest.raises(ConfigError, match="--storage"):
        Roots([], [root])


@pytest.mark.parametrize(
    ("spelling", "one_form"),
    [
        ("hdfs://nn:8020/data", "hdfs://nn:8020/data"),
        ("HDFS://NN:8020//data/./", "hdfs://nn:8020/data"),
        ("hdfs://nn:8020/data/a%20b/c d", "hdfs://nn:8020/data/a%20b/c%20d"),
        ("hdfs://nn:8020/data/100%2525", "hdfs://nn:8020/data/100%2525"),
    ],
)
def test_a_dataset_in_a_store_is_named_in_one_form(spelling: str, one_form: str) -> None:
    assert ROOTS.locate(spelling) == Located(one_form, None)
    assert Roots([], [STORE + "/"]).locate(spelling) == Located(one_form, None)


@pytest.mark.parametrize(
    "escape",
    [
        "hdfs://nn:8020/data-not",
        "hdfs://nn:8020/",
        "hdfs://nn:8020/data/../etc",
        "hdfs://nn:8020/data/%2e%2e/etc",
        "hdfs://nn:8020/data/a%2f..%2f..%2fetc",
        "hdfs://nn:8020/other/data",
        "hdfs://nn:9000/data",
        "hdfs://other:8020/data",
        "hdfs://user@nn:8020/data",
        "hdfs://nn:8020/data?x",
        "hdfs://nn:8020/data#x",
        "hdfs://nn:8020/data%00",
        "hdfs://nn:80x/data",
        "hdfs://[/data",
        "webhdfs://nn:8020/data",
        "hdfs:///data",
        "/data",
        "file:///data",
    ],
)
def test_nothing_outside_the_stores_can_be_named(escape: str) -> None:
    with pytest.raises(OutsideRootsError):
        ROOTS.locate(escape)


@given(st.lists(st.sampled_from(["data", "..", ".", "", "%2e%2e", "%2F", "x", "%25"]), max_size=6))
def test_whatever_is_located_in_a_store_begins_with_the_stores_folder(parts: list[str]) -> None:
    try:
        found = ROOTS.locate("hdfs://nn:8020/" + "/".join(parts))
    except OutsideRootsError:
        return
    assert found.url == STORE or found.url.startswith(STORE + "/")
    assert ".." not in found.url.split("/")
    assert ROOTS.locate(found.url) == found


def test_a_whole_store_can_be_served() -> None:
    roots = Roots([], ["hdfs://nn.example"])
    assert roots.locate("hdfs://nn.example/any/where").url == "hdfs://nn.example/any/where"


def test_a_store_without_a_name_is_that_of_the_configured_namenode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://nn.example:9000</value>"
        "</property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    roots = Roots([], ["hdfs:///data"])
    assert roots.locate("hdfs:///data/a").url == "hdfs:///data/a"
    assert roots.locate("hdfs://nn.example:9000/data/a").url == "hdfs://nn.example:9000/data/a"
    for outside in ("hdfs://nn.example:9000/", "hdfs://other:9000/data", "hdfs://nn.example/data"):
        with pytest.raises(OutsideRootsError):
            roots.locate(outside)


def test_a_stores_usual_port_need_not_be_named() -> None:
    assert ROOTS.locate("hdfs://nn/data/set") == Located("hdfs://nn/data/set", None)


def test_the_name_of_a_service_stays_as_it_is_written() -> None:
    roots = Roots([], ["hdfs://Prod.example/data"])
    assert roots.locate("hdfs://Prod.example/data/x").url == "hdfs://Prod.example/data/x"
    with pytest.raises(OutsideRootsError):
        roots.locate("hdfs://prod.example/data/x")


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ("gopher://host/data", "'gopher' is not supported"),
        ("hdfs://warehouse/data", "HADOOP_CONF_DIR"),
    ],
)
def test_a_store_that_can_never_be_opened_here_stops_the_agent(
    root: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(CallerError, match=said):
        Roots([], [root])


def test_a_located_directory_is_opened_with_its_roots_links(served: Path) -> None:
    (served / "file").write_bytes(b"abc")
    (served / "set" / "link").symlink_to(served / "file")
    storage = open_located(Roots([served]).locate(f"{served}/set"))
    assert storage.read("link") == b"abc"
