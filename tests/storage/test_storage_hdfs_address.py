from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ConfigError
from headrace.storage.hdfs.address import parse_address
from headrace.storage.hdfs.config import HdfsConfig

HA = {
    "fs.defaultFS": "hdfs://prod",
    "dfs.nameservices": "prod",
    "dfs.ha.namenodes.prod": "nn1, nn2",
    "dfs.namenode.rpc-address.prod.nn1": "one.example:8020",
    "dfs.namenode.rpc-address.prod.nn2": "two.example:8020",
    "dfs.namenode.http-address.prod.nn1": "one.example:50070",
    "dfs.namenode.http-address.prod.nn2": "0.0.0.0:9870",
}


def config(**properties: str) -> HdfsConfig:
    return HdfsConfig(properties=properties, directory="/etc/hadoop")


def site(path: Path, **properties: str) -> None:
    rows = "".join(
        f"<property><name>{n}</name><value>{v}</value></property>" for n, v in properties.items()
    )
    path.write_text(f"<configuration>{rows}</configuration>")


def test_a_host_and_port_are_one_namenode() -> None:
    address = parse_address("hdfs://nn:9000/data/", HdfsConfig())
    assert address.url == "hdfs://nn:9000/data"
    assert address.root == "/data"
    assert address.namenodes == ("nn:9000",)
    assert address.web == ("http://nn:9870",)


def test_a_host_without_a_port_has_hadoops_usual_one() -> None:
    for host in ("nn.example.com", "localhost", "10.0.0.7"):
        assert parse_address(f"hdfs://{host}/x", HdfsConfig()).namenodes == (f"{host}:8020",)


def test_the_http_port_of_a_configured_namenode_is_used() -> None:
    one = {"dfs.namenode.rpc-address": "nn:9000", "dfs.namenode.http-address": "nn:1234"}
    assert parse_address("hdfs://nn:9000/", config(**one)).web == ("http://nn:1234",)
    assert parse_address("hdfs://one.example:8020/", config(**HA)).web == (
        "http://one.example:50070",
    )


def test_a_cluster_that_speaks_https_only_is_asked_by_https() -> None:
    properties = {
        "dfs.http.policy": "HTTPS_ONLY",
        "dfs.namenode.rpc-address": "nn:9000",
        "dfs.namenode.https-address": "nn:4433",
    }
    assert parse_address("hdfs://nn:9000/", config(**properties)).web == ("https://nn:4433",)
    assert parse_address("hdfs://other:9000/", config(**properties)).web == ("https://other:9871",)


def test_a_nameservice_has_several_namenodes() -> None:
    address = parse_address("hdfs://prod/a//b c", config(**HA))
    assert address.url == "hdfs://prod/a/b c"
    assert address.namenodes == ("one.example:8020", "two.example:8020")
    assert address.web == ("http://one.example:50070", "http://two.example:9870")


def test_no_authority_means_the_default_file_system() -> None:
    assert parse_address("hdfs:///x", config(**HA)).url == "hdfs://prod/x"
    with pytest.raises(ConfigError, match=r"/etc/hadoop sets no fs\.defaultFS"):
        parse_address("hdfs:///x", config())
    with pytest.raises(ConfigError, match="HADOOP_CONF_DIR is not set"):
        parse_address("hdfs:///x", HdfsConfig())


@pytest.mark.parametrize(
    ("name", "hint"),
    [("prdo", r"knows prod; did you mean prod\?"), ("zzz", "hdfs://zzz:8020")],
)
def test_an_unknown_nameservice_is_answered_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        parse_address(f"hdfs://{name}/x", config(**HA))


def test_a_nameservice_with_a_namenode_without_address_names_the_missing_property() -> None:
    broken = {name: value for name, value in HA.items() if not name.endswith("prod.nn2")}
    with pytest.raises(ConfigError, match=r"dfs\.namenode\.rpc-address\.prod\.nn2"):
        parse_address("hdfs://prod/", config(**broken))


def test_both_site_files_are_read_and_their_variables_replaced(tmp_path: Path) -> None:
    site(tmp_path / "core-site.xml", **{"fs.defaultFS": "hdfs://${who}", "who": "first"})
    site(tmp_path / "hdfs-site.xml", **{"who": "${env.CLUSTER}", "loop": "${loop}"})
    environment = {"HADOOP_CONF_DIR": str(tmp_path), "CLUSTER": "prod", "HADOOP_USER_NAME": "ann"}
    read = HdfsConfig.from_environment(environment)
    assert read.properties == {"fs.defaultFS": "hdfs://prod", "who": "prod", "loop": "${loop}"}
    assert (read.directory, read.user) == (str(tmp_path), "ann")


def test_hadoop_home_leads_to_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "etc/hadoop").mkdir(parents=True)
    site(tmp_path / "etc/hadoop/core-site.xml", **{"fs.defaultFS": "hdfs://x:1"})
    read = HdfsConfig.from_environment({"HADOOP_HOME": str(tmp_path)})
    assert read.properties["fs.defaultFS"] == "hdfs://x:1"
    assert HdfsConfig.from_environment({}).directory is None


def test_waits_may_be_set_in_the_environment() -> None:
    read = HdfsConfig.from_environment({"HEADRACE_HDFS_OUTAGE_S": "2.5"})
    assert (read.outage_s, read.read_timeout_s) == (2.5, HdfsConfig().read_timeout_s)
    for wrong in ("soon", "0"):
        with pytest.raises(ConfigError, match=r"HEADRACE_HDFS|outage_s"):
            HdfsConfig.from_environment({"HEADRACE_HDFS_OUTAGE_S": wrong})


def test_a_configuration_that_is_not_there_or_not_xml_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no directory"):
        HdfsConfig.from_environment({"HADOOP_CONF_DIR": str(tmp_path / "nowhere")})
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError, match=r"core-site\.xml"):
        HdfsConfig.from_environment({"HADOOP_CONF_DIR": str(tmp_path)})


@pytest.mark.parametrize("name", ["read_timeout_s", "hedge_s", "open_files"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        HdfsConfig(**{name: 0})  # type: ignore[arg-type]
