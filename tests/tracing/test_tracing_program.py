"""A traced program runs as if it had been called itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.core.errors import NotFoundError
from headrace.tracing.program import run_program


def run(*command: str, every: Callable[[], None] = lambda: None) -> int:
    return run_program(command, os.environ, every=every, every_s=0.02)


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_programs(code: int) -> None:
    assert run("sh", "-c", f"exit {code}") == code


def test_a_program_that_a_signal_ends_gives_the_code_that_shells_give() -> None:
    assert run("sh", "-c", "kill -9 $$") == 128 + signal.SIGKILL


def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    words = ("a b", "", "--out", "-o", "ü", "'")
    said = tmp_path / "said"
    run(sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(repr(sys.argv[2:]))",
        str(said), *words)  # fmt: skip
    assert said.read_text() == repr(list(words))


def test_a_program_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(NotFoundError, match="cannot run no-such-program: No such file"):
        run("no-such-program")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_reaches_the_program(number: signal.Signals, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'exit 7' {number}; : > {ready}; while :; do sleep 0.02; done"

    def send_when_ready() -> None:
        if ready.exists():
            os.kill(os.getpid(), number)

    assert run("sh", "-c", script, every=send_when_ready) == 7


def test_a_signal_is_passed_on_whichever_thread_it_comes_to(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'exit 7' TERM; : > {ready}; while :; do sleep 0.02; done"

    def wait_and_send() -> None:
        while not ready.exists():
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    sender = threading.Thread(target=wait_and_send)
    sender.start()
    assert run("sh", "-c", script) == 7
    sender.join()


def test_a_signal_that_comes_when_the_program_has_ended_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waitpid = os.waitpid

    def wait_and_be_signalled(pid: int, options: int) -> tuple[int, int]:
        ended = waitpid(pid, options)
        os.kill(os.getpid(), signal.SIGTERM)
        return ended

    monkeypatch.setattr(os, "waitpid", wait_and_be_signalled)
    assert run("sh", "-c", "exit 5") == 5


def test_a_signal_that_is_ignored_here_is_ignored_by_the_program() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run("sh", "-c", "kill -HUP $$; exit 5") == 5
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_as_before_when_it_ends() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    run("true")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
