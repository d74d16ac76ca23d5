from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ConfigError
from testbed import Scenario, Testbed
from testbed.service_specs import AgentSpec, HdfsSpec, ServiceSpecs
from testbed.services import Services

SCENARIOS = sorted((Path(__file__).parents[2] / "testbed" / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_the_services_of_every_scenario_are_understood(file: Path) -> None:
    assert ServiceSpecs.of(Scenario.load(file).services).hdfs.replication == 2


def test_what_is_not_said_has_a_value_and_agents_are_asked_for() -> None:
    specs = ServiceSpecs.of({"hdfs": {"block_mib": 1}})
    assert specs == ServiceSpecs(hdfs=HdfsSpec(block_mib=1.0), agents=None)
    assert ServiceSpecs.of({"agents": {}}).agents == AgentSpec()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"hdfs": {"blockmib": 1}}, "'blockmib' in services.hdfs; did you mean 'block_mib'"),
        ({"agent": {}}, "'agent' in services; did you mean 'agents'"),
        ({"agents": {"workers": "two"}}, "services.agents: Expected `int"),
        ({"agents": {"options": ["--name", 1]}}, "services.agents: Expected `str"),
        ({"hdfs": 3}, "services.hdfs must be a table"),
    ],
)
def test_a_slip_is_refused_with_its_place(table: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ServiceSpecs.of(table)
    assert said in str(caught.value)


@pytest.mark.usefixtures("machine")
def test_each_site_can_have_a_cluster_of_its_own() -> None:
    sites = "".join(
        f'[[hosts]]\nrole = "{role}"\nname = "{role}-{site}"\nsite = "{site}"\n'
        for site in ("a", "b")
        for role in ("namenode", "storage")
    )
    with Testbed(Scenario.parse(f'name = "two"\n{sites}[wan]\n[services.hdfs]')) as bed:
        one, other = (Services(bed, site=site).hdfs for site in ("a", "b"))
        for cluster in (one, other):
            assert (len(cluster.namenodes), len(cluster.datanodes)) == (1, 1)
        assert one.url != other.url
        assert one.directory != other.directory


def test_hdfs_needs_hosts_to_run_on() -> None:
    scenario = Scenario.parse('name = "bare"\n[[hosts]]\nrole = "trainer"\n[services.hdfs]')
    with pytest.raises(ConfigError, match="roles namenode and storage; bare has 0 and 0"):
        Services(Testbed(scenario))
