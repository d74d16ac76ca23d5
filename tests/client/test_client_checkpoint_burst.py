"""Saves are announced to a real controller, and hold to the rate that it gives."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from headrace.client.checkpoint import burst
from headrace.client.checkpoint.burst import AnnouncedSave, SaveAnnouncement
from headrace.controller.local import LocalController
from headrace.core.errors import ConfigError
from headrace.torch import CheckpointWriter
from headrace.wire.connection import Connection
from headrace.wire.control import HealthAnswer, JobAnnounced
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import JobView

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    with LocalController(options=("--tier", "hdd=20MB")) as started:
        yield started


@pytest.fixture
def connection(controller: LocalController) -> Iterator[Connection]:
    endpoint = Endpoint(address=controller.address, token=controller.token)
    connection = Connection(endpoint)
    message = JobAnnounced(host="h0", boot="b0", world=1, step_time_s=1.0)
    connection.call("PUT", "/v1/jobs/saves", HealthAnswer, message)
    yield connection
    connection.close()


def announcement(known: LocalController, **changed: Any) -> SaveAnnouncement:
    usual = {"job": "saves", "controller": known.address, "token": known.token}
    return SaveAnnouncement(**{**usual, "deadline_s": 1.0, **changed})


def bursts(connection: Connection) -> list[str]:
    return [one.burst for one in connection.call("GET", "/v1/jobs/saves", JobView).bursts]


def test_a_save_is_known_until_it_is_over(
    controller: LocalController, connection: Connection
) -> None:
    save = AnnouncedSave(announcement(controller), "step-7", 100 * 10**6)
    rate = save.begin()
    assert rate is not None
    assert 0 < rate <= 20e6
    assert bursts(connection) == ["step-7"]
    save.end()
    save.end()
    assert bursts(connection) == []


def test_a_writer_holds_to_its_rate_and_ends_its_announcement(
    controller: LocalController, connection: Connection, tmp_path: Path
) -> None:
    seen: list[str] = []
    finish = CheckpointWriter.finish

    class Watching(CheckpointWriter):
        def finish(self, *arguments: Any, **named: Any) -> None:
            seen.extend(bursts(connection))
            finish(self, *arguments, **named)

    writer = Watching(tmp_path / "step 7", announcement=announcement(controller))
    begin = time.monotonic()
    state = {"a": torch.zeros(5_000_000, dtype=torch.int32)}
    dcp.save(state, storage_writer=writer, no_dist=True)
    assert time.monotonic() - begin > 0.6
    assert seen == ["step-7"]
    assert bursts(connection) == []


def test_a_save_that_failed_ends_its_announcement_with_the_next_one(
    controller: LocalController, connection: Connection, tmp_path: Path
) -> None:
    class Failing(CheckpointWriter):
        def write_data(self, *_: Any) -> Any:
            raise ValueError("it fails")

    writer = Failing(tmp_path / "step-8", announcement=announcement(controller))
    with pytest.raises(dcp.api.CheckpointException):
        dcp.save({"a": torch.zeros(1000)}, storage_writer=writer, no_dist=True)
    assert bursts(connection) == ["step-8"]
    writer.reset()
    assert bursts(connection) == []


@pytest.mark.parametrize(
    "wrong", [{"job": "unknown"}, {"tier": "tape"}, {"controller": "http://127.0.0.1:9"}]
)
def test_a_save_goes_on_without_a_controller_that_can_help(
    controller: LocalController,
    connection: Connection,
    caplog: pytest.LogCaptureFixture,
    wrong: dict[str, str],
) -> None:
    save = AnnouncedSave(announcement(controller, **wrong), "step-7", 1000)
    with caplog.at_level(logging.WARNING):
        assert save.begin() is None
    assert "without a limit" in caplog.text
    save.end()


def test_a_save_does_not_wait_long_where_nothing_is_free(
    controller: LocalController, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(burst, "PATIENCE_S", 0.2)
    monkeypatch.setattr(burst, "ASK_AGAIN_S", 0.1)
    call = Connection.call

    def nothing(self: Connection, *arguments: Any) -> Any:
        answer = call(self, *arguments)
        return type(answer)(bytes_per_s=0.0, reason="nothing is free")

    monkeypatch.setattr(Connection, "call", nothing)
    assert AnnouncedSave(announcement(controller), "step-7", 1000).begin() is None


def test_nothing_is_announced_without_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_CONTROLLER", raising=False)
    save = AnnouncedSave(SaveAnnouncement(job="saves"), "step-7", 1000)
    assert save.begin() is None
    save.end()


@pytest.mark.parametrize("wrong", [{"job": ""}, {"tier": ""}, {"deadline_s": 0.0}])
def test_announcements_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="an announcement needs"):
        SaveAnnouncement(**{"job": "saves", **wrong})
