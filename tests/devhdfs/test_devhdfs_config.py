from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.devhdfs.config import ClusterConfig, NameNodeAddress, client_site, client_url, to_xml

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
ONE = NameNodeAddress(name="namenode-1", ip="127.0.0.1", rpc_port=8020, http_port=9870)
TWO = NameNodeAddress(name="namenode-2", ip="127.0.0.1", rpc_port=8021, http_port=9871)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_any_property_survives_the_file(properties: dict[str, str]) -> None:
    root = ElementTree.fromstring(to_xml(properties))
    read = {one.findtext("name"): one.findtext("value") for one in root}
    assert read == properties


@pytest.mark.parametrize(
    "wrong",
    [
        {"datanodes": 0},
        {"namenodes": 3},
        {"block_size": 1000},
        {"replication": 0},
        {"bandwidth": 1000},
    ],
)
def test_what_hadoop_could_not_run_is_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ClusterConfig(**wrong)


def test_one_namenode_is_addressed_directly() -> None:
    assert client_url([ONE]) == "hdfs://127.0.0.1:8020"
    assert "dfs.nameservices" not in client_site(ClusterConfig(), [ONE])


def test_two_namenodes_are_a_nameservice_that_clients_can_resolve() -> None:
    properties = client_site(ClusterConfig(namenodes=2), [ONE, TWO])
    service = client_url([ONE, TWO]).removeprefix("hdfs://")
    assert properties["dfs.nameservices"] == service
    addresses = [
        properties[f"dfs.namenode.rpc-address.{service}.{name}"]
        for name in properties[f"dfs.ha.namenodes.{service}"].split(",")
    ]
    assert addresses == ["127.0.0.1:8020", "127.0.0.1:8021"]
