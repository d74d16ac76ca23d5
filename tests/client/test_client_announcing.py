"""A job's start-up announces its checkpoint: once, in bounded time, without ever failing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.controller.local import LocalController
from headrace.core.errors import ConfigError, HeadraceError

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "HEADRACE_CONTROLLER", "HEADRACE_TOKEN")


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    with LocalController() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hot").write_bytes(bytes(1000))
    return tmp_path


@pytest.fixture(autouse=True)
def environment(controller: LocalController, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADRACE_CONTROLLER", controller.address)
    monkeypatch.setenv("HEADRACE_TOKEN", controller.token)


def test_the_first_rank_announces_as_the_environment_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "16"), ("LOCAL_WORLD_SIZE", "8")):
        monkeypatch.setenv(name, value)
    with headrace.announce(str(folder), files=["hot"], eta_s=5.0, job="llm") as told:
        view = told.view()
        assert view is not None
        assert (view.world_size, view.hosts, view.job) == (16, 2, "llm")
        assert told.ready(timeout_s=5.0)  # a directory, and no agents: nothing to wait for
        told.renew(60.0)
        assert (view := told.view()) is not None
        assert view.expires_in_s <= 60.0
        name = told.id
    assert told.id is None
    assert headrace.announce(str(folder), world_size=4, files=["hot"]).id != name


def test_other_ranks_say_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("HEADRACE_CONTROLLER", "http://127.0.0.1:9")
    with headrace.announce(str(folder), strict=True) as told:
        assert (told.id, told.error, told.view()) == (None, "", None)
        assert told.ready()
        told.renew()


@pytest.mark.parametrize(
    ("variables", "given", "said"),
    [
        ({"HEADRACE_CONTROLLER": ""}, {"world_size": 4}, "no controller is named"),
        ({"HEADRACE_CONTROLLER": "http://127.0.0.1:9"}, {"world_size": 4}, "is it running"),
        ({"HEADRACE_CONTROLLER": "nonsense"}, {"world_size": 4}, "not of the form"),
        ({"HEADRACE_TOKEN": "w" * 20}, {"world_size": 4}, "bearer token"),
        ({}, {}, "no world_size"),
        ({"WORLD_SIZE": "many"}, {}, "must be a whole number"),
        ({}, {"world_size": 4, "eta_s": -1.0}, "eta_s=-1"),
    ],
)
def test_what_goes_wrong_is_logged_and_raised_only_if_asked(
    variables: dict[str, str],
    given: dict[str, float],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = headrace.announce(str(folder), **given)  # type: ignore[arg-type]
    assert said in told.error
    assert said in caplog.text
    assert not told.ready(timeout_s=5.0)
    told.release()
    with pytest.raises(HeadraceError, match=said):
        headrace.announce(str(folder), strict=True, **given)  # type: ignore[arg-type]


def test_a_controller_that_hangs_holds_training_up_for_a_few_seconds_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.endpoints.ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HEADRACE_CONTROLLER", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        told = headrace.announce(str(folder), world_size=4)
        assert time.monotonic() - began < 4.0
    assert "no answer in time" in told.error


def test_a_checkpoint_that_cannot_be_read_is_not_ready(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with headrace.announce(str(folder / "nowhere"), world_size=4) as told:
        assert not told.ready(timeout_s=10.0)
        view = told.view()
        assert view is not None
        assert view.state == "failed"
        assert "no directory at" in view.reason
        assert told.error == view.reason
    assert caplog.text.count("the checkpoint cannot be announced: no directory at") == 1


def test_that_a_checkpoint_cannot_be_read_is_raised_if_that_is_asked_for(folder: Path) -> None:
    told = headrace.announce(str(folder / "nowhere"), world_size=4, strict=True)
    with pytest.raises(HeadraceError, match="no directory at"):
        told.ready(timeout_s=10.0)
    told.release()


def test_what_was_not_waited_for_is_told_at_the_release(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = headrace.announce(str(folder / "nowhere"), world_size=4)
    again = headrace.Announcement(told._endpoint, strict=False)
    again.id = told.id
    assert not told.ready(timeout_s=10.0)
    caplog.clear()
    again.release()
    assert "the checkpoint cannot be announced: no directory at" in caplog.text


def test_a_lease_that_is_over_cannot_be_renewed(folder: Path) -> None:
    told = headrace.announce(str(folder), world_size=4, files=["hot"], strict=True)
    again = headrace.Announcement(told._endpoint, strict=True)
    again.id = told.id
    told.release()
    with pytest.raises(HeadraceError, match="it is over"):
        again.renew()
    again.release()


def test_what_is_wrong_with_a_lease_does_not_stop_training(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = headrace.announce(str(folder), world_size=4, files=["hot"])
    told.renew(-1.0)
    assert "lease_s=-1" in caplog.text
    told.release()


def test_numbers_in_the_environment_are_checked() -> None:
    with pytest.raises(ConfigError):
        headrace.announce("x", world_size=4, controller="", token="a b", strict=True)
