"""Real agents and a real controller whose link is encrypted, distrusted, refused or frozen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from headrace.agent.local import LocalAgent
from headrace.controller.local import LocalController
from headrace.wire import child
from headrace.wire.connection import Connection
from headrace.wire.control import HealthAnswer, JobAnnounced
from headrace.wire.endpoint import Endpoint
from integration.agents import agent_statistics
from waiting import eventually

TOKEN = "e" * 20
JOB = JobAnnounced(host="trainer", boot="b", world=1)


@dataclass(frozen=True)
class Encrypted:
    """A controller behind TLS."""

    controller: LocalController
    ca: Path
    """Certificates that vouch for it."""

    other_ca: Path
    """Certificates that do not."""

    def connection(self) -> Connection:
        return Connection(
            Endpoint(address=self.controller.address, token=TOKEN, ca_file=str(self.ca))
        )


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[Encrypted]:
    authority, other = trustme.CA(), trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for name, whose in (("ca.pem", authority), ("other.pem", other)):
        whose.cert_pem.write_to_path(tmp_path / name)
    options = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with LocalController(token=TOKEN, options=options) as controller:
        assert controller.address.startswith("https://")
        yield Encrypted(controller, tmp_path / "ca.pem", tmp_path / "other.pem")


@contextmanager
def agent_of(
    root: Path, controller: str, *options: str, words: Path, token: str = TOKEN
) -> Iterator[LocalAgent]:
    given = ("--workers", "0", "--tier", "hdd=40MB/s", "--controller", controller, *options)
    with (
        words.open("wb") as log,
        LocalAgent([root], token=token, options=given, stderr=log) as agent,
    ):
        yield agent


def test_quotas_arrive_through_tls(tmp_path: Path, encrypted: Encrypted) -> None:
    options = ("--controller-ca", str(encrypted.ca))
    address = encrypted.controller.address
    with agent_of(tmp_path, address, *options, words=tmp_path / "words") as agent:
        eventually(lambda: agent_statistics(agent)["controller_away"] == "")
        trainer = encrypted.connection()
        trainer.call("PUT", "/v1/jobs/pictures", HealthAnswer, JOB)
        trainer.close()
        eventually(lambda: "pictures" in agent_statistics(agent)["quotas"])
        assert 0 < agent_statistics(agent)["quotas"]["pictures"]["hdd"] <= 40e6


def test_an_agent_that_does_not_trust_its_controller_says_so_once_and_serves(
    tmp_path: Path, encrypted: Encrypted
) -> None:
    words, options = tmp_path / "words", ("--controller-ca", str(encrypted.other_ca))
    with agent_of(tmp_path, encrypted.controller.address, *options, words=words) as agent:
        eventually(
            lambda: "certificate is not trusted" in agent_statistics(agent)["controller_away"]
        )
        time.sleep(1.5)  # it tries again
        assert agent_statistics(agent)["quotas"] == {}
    assert words.read_text().count("its certificate is not trusted") == 1
    assert "quotas stay as they are" in words.read_text()


def test_an_agent_whose_token_the_controller_refuses_says_so_once_and_serves(
    tmp_path: Path, encrypted: Encrypted
) -> None:
    words, options = tmp_path / "words", ("--controller-ca", str(encrypted.ca))
    address = encrypted.controller.address
    with agent_of(tmp_path, address, *options, words=words, token="w" * 20) as agent:
        eventually(lambda: "token" in agent_statistics(agent)["controller_away"])
        time.sleep(1.5)  # it tries again
        assert agent_statistics(agent)["quotas"] == {}
    assert words.read_text().count("quotas stay as they are") == 1


def test_certificates_that_vanish_while_an_agent_runs_cost_it_nothing_but_the_controller(
    tmp_path: Path, encrypted: Encrypted
) -> None:
    words, options = tmp_path / "words", ("--controller-ca", str(encrypted.ca))
    with agent_of(tmp_path, encrypted.controller.address, *options, words=words) as agent:
        eventually(lambda: agent_statistics(agent)["controller_away"] == "")
        hidden = encrypted.ca.rename(tmp_path / "hidden.pem")
        encrypted.controller.kill()
        encrypted.controller.start()
        eventually(lambda: "ca.pem cannot be read" in agent_statistics(agent)["controller_away"])
        hidden.rename(encrypted.ca)
        eventually(lambda: agent_statistics(agent)["controller_away"] == "")


def test_an_agent_ends_in_time_while_its_controller_is_frozen(
    tmp_path: Path, encrypted: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STOP_TIMEOUT_S", 12.0)  # killed after that; it takes two
    words, options = tmp_path / "words", ("--controller-ca", str(encrypted.ca))
    agents = [
        agent_of(tmp_path, encrypted.controller.address, *options, words=words) for _ in range(2)
    ]
    with agents[0] as well, agents[1] as hanging:
        eventually(lambda: agent_statistics(well)["controller_away"] == "")
        eventually(lambda: agent_statistics(hanging)["controller_away"] == "")
        os.kill(encrypted.controller.pid, signal.SIGSTOP)
        try:
            assert well.stop() == 0
            time.sleep(1.5)  # the other waits for an answer now
            assert hanging.stop() == 0
        finally:
            os.kill(encrypted.controller.pid, signal.SIGCONT)
