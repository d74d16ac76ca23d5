"""``headrace controller``: its options, its file, its words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from headrace.cli.main import run
from headrace.controller.local import LocalController
from headrace.core.errors import AgentUnavailableError
from headrace.wire.connection import Connection
from headrace.wire.control import HealthAnswer, JobAnnounced
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Estate

LISTEN = ("controller", "--listen", "127.0.0.1:0")


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "t" * 20)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run([*LISTEN, *arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("poolshare = 0.2", "unknown key 'poolshare'; did you mean 'pool-share'?"),
        ("[reservation]\nrounds_s = 1", "unknown key 'rounds_s'; did you mean 'round_s'?"),
        ("[reservation.pool]\nshar = 1", "unknown key 'shar'; did you mean 'share'?"),
        ("[reservation.pool]\nshare = 2", "pool.share=2 must lie in"),
        ("[reservation]\nround_s = 'x'", "Expected `float`"),
        ("reservation = 5", "must be a table"),
        ("tier = 'hdd=5MB'", 'a list, such as tier = ["hdd=600MB"]'),
        ("listen = [1]", "listen must be one value"),
        ("= 5", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_nearest_right_thing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    file = tmp_path / "controller.toml"
    file.write_text(text)
    assert words in said(capsys, "--config", str(file))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tier", "tape=5MB"), "choose ssd, hdd or link"),
        (("--tier", "hdd=5MB:/data"), "give it no places"),
        (("--tls-cert", "c.pem"), "needs both --tls-cert and --tls-key"),
        (("--token-file", "/nowhere"), "no token file at /nowhere"),
        (("--journal", "/proc/nowhere/journal.db"), "journal /proc/nowhere/journal.db cannot"),
        (("--agent-silent", "500"), "job_silent_s=300 must be at least 500"),
    ],
)
def test_wrong_options_are_refused_with_what_to_do(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert words in said(capsys, *arguments)


def test_the_file_of_the_examples_has_no_key_that_is_unknown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    example = Path(__file__).parents[2] / "examples/deploy/controller.toml"
    there = tmp_path / "controller.toml"
    there.write_text(example.read_text().replace("/etc/headrace", str(tmp_path)))
    assert run(["controller", "--config", str(there)]) == 2
    assert f"no token file at {tmp_path}/token" in capsys.readouterr().err
    (tmp_path / "token").write_text("t" * 32)
    assert run(["controller", "--config", str(there)]) == 2
    assert f"TLS certificate {tmp_path}/controller.pem" in capsys.readouterr().err


def test_a_file_and_tls_and_open_metrics_work_together(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    file = tmp_path / "controller.toml"
    file.write_text(
        f'tls-cert = "{tmp_path}/cert.pem"\ntls-key = "{tmp_path}/key.pem"\n'
        'tier = ["hdd=100MB/s"]\nopen-metrics = true\npool-share = 0.1\n'
        "[reservation.pool]\nshare = 0.4\n"
    )
    with LocalController(options=("--config", str(file))) as controller:
        assert controller.address.startswith("https://")
        ca = str(tmp_path / "ca.pem")
        trusted = Connection(
            Endpoint(address=controller.address, token=controller.token, ca_file=ca)
        )
        trusted.call("PUT", "/v1/jobs/a", HealthAnswer, JobAnnounced(host="h", boot="b", world=8))
        (tier,) = trusted.call("GET", "/v1/estate", Estate).tiers
        assert tier.pool_bytes_per_s == pytest.approx(10e6)
        trusted.close()
        anonymous = Connection(Endpoint(address=controller.address, ca_file=ca))
        anonymous.send("GET", "/metrics")
        assert b"headrace_tier_pool_bytes_per_second" in anonymous.receive().read()
        anonymous.close()
        assert controller.stop() == 0


def test_a_taken_journal_is_told_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with LocalController(path), pytest.raises(AgentUnavailableError):
        LocalController(path, stderr=subprocess.DEVNULL).start()


def test_the_examples_of_the_help_are_there() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "headrace", "controller", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert shown.count("headrace controller --") == 2
