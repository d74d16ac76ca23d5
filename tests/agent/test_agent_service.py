"""A real agent in its own process, asked over HTTP as a client would."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import numpy as np
import pytest
import trustme
from client_for_tests import Job, connect, make_dataset

from headrace.agent.local import LocalAgent
from headrace.core.errors import AuthError, RefusedError
from headrace.core.roster import RosterEntry
from headrace.dataset.index import Index
from headrace.prepare.job import open_job
from headrace.transform import ops
from headrace.transform.ops.user import UserOp
from headrace.transform.pipeline import Pipeline
from headrace.wire.endpoint import Endpoint
from headrace.wire.messages import FetchRequest, Fingerprint, JobRegistered, JobRoster
from waiting import eventually

QUIET = ("--workers", "2", "--cpu-threshold", "1")
"""Options of an agent that does not mind who else uses this host."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("served") / "photos")


@pytest.fixture(scope="module")
def agent(dataset: Path) -> Iterator[LocalAgent]:
    with LocalAgent([dataset.parent], options=QUIET) as started:
        yield started


@pytest.fixture
def job(agent: LocalAgent, dataset: Path) -> Iterator[Job]:
    job = Job(agent, dataset)
    job.register()
    yield job
    job.connection.close()


def test_samples_come_transformed_and_equal_to_what_is_made_here(job: Job) -> None:
    frames = job.fetch(0, 1, 2, 23)
    assert set(frames) == {0, 1, 2, 23}
    for sample, (header, record) in frames.items():
        assert (header.kind, header.cut) == ("tensor", job.cut)
        np.testing.assert_array_equal(record["image"], job.expected(sample)["image"])


def test_what_lay_ready_is_marked_so_and_the_answer_has_a_length(
    dataset: Path,
) -> None:
    in_order = ("--workers", "1", "--cpu-threshold", "1")
    with LocalAgent([dataset.parent], options=in_order) as agent:
        job = Job(agent, dataset, Pipeline((ops.DecodeImage(), ops.CenterCrop(32))))
        job.register()
        batch = open_job(job.spec).schedule.batch(0)
        eventually(lambda: job.statistics()["prepared"] >= 60)  # type: ignore[operator]
        frames = job.fetch(*batch.samples.tolist())
    assert all(header.ready for header, _ in frames.values() if header.kind == "tensor")
    assert any(header.ready for header, _ in frames.values())


def test_a_truncated_picture_is_missing_with_its_reason(job: Job) -> None:
    header, _ = job.fetch(5)[5]
    assert (header.kind, header.code) == ("missing", "corrupt")
    assert "005.jpg" in header.reason or "image" in header.reason


def test_a_client_may_ask_for_the_encoded_bytes(job: Job, dataset: Path) -> None:
    header, record = job.fetch(7, want="raw")[7]
    assert (header.kind, header.code, header.cut) == ("raw", "asked", 0)
    assert record["image"] == (dataset / "007.jpg").read_bytes()


def test_a_cut_may_move_while_a_job_runs_and_ranks_that_do_not_know_leave_it(
    agent: LocalAgent, dataset: Path
) -> None:
    job = Job(agent, dataset, Pipeline((ops.DecodeImage(), ops.Resize(44), ops.ToFloat())), cut=3)
    job.register()
    assert job.fetch(9)[9][0].cut == 3
    told = job.connection.call("GET", f"{job.path}/roster", JobRoster)
    for cut, kind, code in ((2, "tensor", ""), (0, "raw", "asked")):
        moved = msgspec.structs.replace(told, cuts={"image": cut})
        job.connection.call("PUT", f"{job.path}/roster", JobRegistered, moved)
        job.register()
        header, _ = job.fetch(9)[9]  # again: what lay ready before stays as it was made
        assert (header.kind, header.cut, header.code) == (kind, cut, code)
        heard = job.connection.call("GET", f"{job.path}/roster", JobRoster)
        assert heard.cuts == {"image": cut}
    with pytest.raises(RefusedError, match="may be cut"):
        impossible = msgspec.structs.replace(told, cuts={"image": 1})
        job.connection.call("PUT", f"{job.path}/roster", JobRegistered, impossible)


def test_a_sample_that_cannot_be_made_in_time_comes_raw_and_late(job: Job) -> None:
    header, _ = job.fetch(8, step=900, wait_s=0.0)[8]
    assert (header.kind, header.code) == ("raw", "late")


def test_a_file_that_vanished_is_missing_not_a_failure(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "served" / "gone", count=8)
    with LocalAgent([tmp_path / "served"], options=QUIET) as agent:
        job = Job(agent, dataset)
        job.register(cuts={"image": 0})
        (dataset / "003.jpg").unlink()
        (dataset / "004.jpg").write_bytes(b"other bytes")
        frames = job.fetch(3, 4, 6)
        assert [frames[n][0].kind for n in (3, 4, 6)] == ["missing", "missing", "raw"]
        assert frames[4][0].code == "unreadable"


def test_another_fingerprint_makes_it_serve_raw_and_say_why(
    agent: LocalAgent, dataset: Path
) -> None:
    job = Job(agent, dataset, Pipeline((ops.DecodeImage(), ops.Resize(50))))
    answer = job.register(fingerprint=Fingerprint(versions={"pillow": "0.1"}, golden={"x": "y"}))
    assert answer.mode == "raw-only"
    assert answer.reason
    header, _ = job.fetch(1)[1]
    assert (header.kind, header.code, header.reason) == ("raw", "raw-only", answer.reason)


def test_registering_twice_changes_nothing_and_a_removed_job_is_unknown(
    agent: LocalAgent, dataset: Path
) -> None:
    job = Job(agent, dataset, Pipeline((ops.DecodeImage(), ops.Resize(40))))
    assert job.register() == job.register()
    job.connection.send("DELETE", job.path)
    assert job.connection.receive().status == 204
    job.send(1)
    with pytest.raises(RefusedError) as refusal:
        job.receive()
    assert refusal.value.code == "unknown-job"


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"protocol": 99}, "unsupported", "protocol"),
        ({"cuts": {"image": 1}}, "bad-request", "cut"),
        ({"world": 0}, "bad-request", "world"),
        ({"start_step": 1 << 63}, "bad-request", "start_step"),
        ({"roster": (RosterEntry(name="twin"), RosterEntry(name="twin"))}, "bad-request", "twice"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(
    job: Job, changes: dict[str, object], code: str, says: str
) -> None:
    with pytest.raises(RefusedError, match=says) as refusal:
        job.register(**changes)
    assert refusal.value.code == code


def respecified(job: Job, **source: object) -> Job:
    first = msgspec.structs.replace(job.spec.sources[0], **source)
    job.spec = msgspec.structs.replace(job.spec, sources=(first,))
    job.path = f"/v1/jobs/{job.spec.id}"
    return job


def test_a_job_outside_the_roots_is_refused_also_by_dots_and_links(
    agent: LocalAgent, dataset: Path, tmp_path: Path
) -> None:
    outside = make_dataset(tmp_path / "outside", count=8)
    link = dataset.parent / "link"
    link.symlink_to(outside)
    dots = f"{dataset}/../../{os.path.relpath(outside, dataset.parent.parent)}"
    for url in (str(outside), str(link), dots):
        with pytest.raises(RefusedError) as refusal:
            respecified(Job(agent, dataset), url=url).register()
        assert refusal.value.code == "outside-roots"
    link.unlink()


def test_a_link_inside_a_dataset_does_not_lead_out_of_the_roots(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "served" / "set", count=8)
    secret = tmp_path / "secret.jpg"
    secret.write_bytes((dataset / "006.jpg").read_bytes())
    os.utime(secret, ns=((dataset / "006.jpg").stat().st_mtime_ns,) * 2)
    (dataset / "006.jpg").unlink()
    (dataset / "006.jpg").symlink_to(secret)
    with LocalAgent([tmp_path / "served"], options=QUIET) as agent:
        job = Job(agent, dataset)
        job.register()
        header, record = job.fetch(6)[6]
        raw_header, raw = job.fetch(6, want="raw")[6]
    assert (header.kind, raw_header.kind) == ("missing", "missing")
    assert not record
    assert not raw


def test_another_index_than_the_job_was_planned_with_is_refused(
    agent: LocalAgent, dataset: Path
) -> None:
    with pytest.raises(RefusedError, match="headrace index") as refusal:
        respecified(Job(agent, dataset), index_digest="0" * 32).register()
    assert refusal.value.code == "stale-index"


def test_a_job_that_counts_other_samples_than_the_index_has_is_refused(
    agent: LocalAgent, dataset: Path
) -> None:
    with pytest.raises(RefusedError, match="24") as refusal:
        respecified(Job(agent, dataset), samples=1000).register()
    assert refusal.value.code == "bad-request"


def test_what_was_prepared_before_the_cut_changed_still_says_its_own_cut(dataset: Path) -> None:
    with LocalAgent([dataset.parent], options=QUIET) as agent:
        job = Job(agent, dataset, Pipeline((ops.DecodeImage(), ops.Resize(30), ops.ToFloat())))
        early, late = job.program.cuts[1:]
        job.cut = late
        job.register()
        eventually(lambda: job.statistics()["prepared"] >= 40)
        job.register(cuts={"image": early})
        header, record = job.fetch(1)[1]
    assert (header.cut, header.ready) == (late, True)
    np.testing.assert_array_equal(record["image"], job.expected(1)["image"])


def test_users_ops_must_be_allowed_by_the_agent(agent: LocalAgent, dataset: Path) -> None:
    pipeline = Pipeline((ops.DecodeImage(), UserOp(path="os.path:basename", fields=("image",))))
    with pytest.raises(RefusedError, match=r"os\.path:basename") as refusal:
        Job(agent, dataset, pipeline, cut=0).register()
    assert refusal.value.code == "bad-request"


def test_the_index_can_be_had_by_clients_that_cannot_see_the_storage(
    job: Job, dataset: Path
) -> None:
    job.connection.send("GET", f"{job.path}/index/0")
    data = job.connection.receive().read(16 << 20)
    assert Index.from_bytes(data).digest == job.spec.sources[0].index_digest
    job.connection.send("GET", f"{job.path}/index/1")
    with pytest.raises(RefusedError):
        job.connection.receive()


def test_a_wrong_token_and_none_are_refused_but_health_is_public(agent: LocalAgent) -> None:
    for token in (None, "wrong-token-wrong-token"):
        with pytest.raises(AuthError):
            connect(Endpoint(address=agent.address, token=token)).call(
                "GET", "/v1/statistics", dict
            )
    connection = connect(Endpoint(address=agent.address))
    connection.send("GET", "/healthz")
    assert connection.receive().read() == b"ok\n"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", b"", 404, "no-route"),
        ("POST", "/v1/statistics", b"", 405, "no-route"),
        ("PUT", "/v1/jobs/x", b"{not json", 400, "bad-request"),
        ("PUT", "/v1/jobs/x", b'{"spec": 3, "typo": 1}', 400, "bad-request"),
        ("POST", "/v1/jobs/x/fetch", b"{}", 400, "bad-request"),
    ],
)
def test_every_refusal_is_a_message_with_a_code(
    agent: LocalAgent, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    target = urlsplit(agent.address)
    client = http.client.HTTPConnection(target.hostname or "", target.port, timeout=10)
    client.request(method, path, body, {"Authorization": f"Bearer {agent.token}"})
    answer = client.getresponse()
    said = json.loads(answer.read())
    assert (answer.status, said["code"]) == (status, code)
    assert said["error"]
    client.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": (99,)},
        {"samples": ()},
        {"epochs": (0, 0)},
        {"rank": 3},
        {"wait_s": -1.0},
        {"wait_s": 1e9},
        {"epochs": (1 << 70,)},
        {"step": 1 << 63},
        {"consumed_step": 1 << 70},
        {"consumed_step": -2},
    ],
)
def test_a_fetch_that_makes_no_sense_is_refused(job: Job, changes: dict[str, object]) -> None:
    good = FetchRequest(
        step=0, rank=0, world=1, samples=(1,), epochs=(0,), consumed_step=0, step_time_s=0, wait_s=0
    )  # fmt: skip
    bad = msgspec.structs.replace(good, **changes)
    job.connection.send("POST", f"{job.path}/fetch", msgspec.json.encode(bad))
    with pytest.raises(RefusedError) as refusal:
        job.connection.receive()
    assert refusal.value.code == "bad-request"


def test_a_client_that_leaves_in_the_middle_holds_no_memory(job: Job) -> None:
    job.fetch(0)
    job.send(*range(24), step=700)
    job.connection.close()
    eventually(lambda: job.statistics()["requests"] == 0)
    assert set(job.fetch(*range(24), step=700)) == set(range(24))


def test_it_serves_over_tls_and_over_a_unix_socket_at_once(dataset: Path, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    options = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    options += ["--unix", str(tmp_path / "agent.sock"), *QUIET]
    with LocalAgent([dataset.parent], options=options) as agent:
        assert agent.address.startswith("https://")
        assert agent.unix_socket == str(tmp_path / "agent.sock")
        assert (tmp_path / "agent.sock").stat().st_mode & 0o777 == 0o600
        job = Job(agent, dataset)
        for endpoint in (
            Endpoint(address=agent.address, token=agent.token, ca_file=str(tmp_path / "ca.pem")),
            Endpoint(address=f"unix:{agent.unix_socket}", token=agent.token),
        ):
            job.connection = connect(endpoint)
            assert job.register().unix_socket == agent.unix_socket
            assert job.fetch(3)[3][0].kind == "tensor"
            job.connection.close()
