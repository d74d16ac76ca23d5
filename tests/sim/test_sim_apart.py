"""Tasks in processes of their own: their results, and how they end when something goes wrong."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from headrace.core.errors import CallerError, RemoteError
from headrace.sim.apart import Tell, _interrupts_held, run_apart
from waiting import eventually

SOON_S = 20.0


def square(number: int, tell: Tell) -> int:
    tell(number / 2)
    return number * number


def refuse(tell: Tell) -> int:
    raise CallerError("no such thing; name another")


def be_killed(tell: Tell) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def crash(tell: Tell) -> int:
    os._exit(7)


def crash_in_the_middle_of_a_message(tell: Tell) -> int:
    pipe = tell.__self__  # type: ignore[attr-defined]  # it is the pipe's method
    os.write(pipe.fileno(), struct.pack("!i", 1000) + b"beginning")
    os._exit(7)


def last(file: Path, tell: Tell) -> int:
    file.write_text(str(os.getpid()))
    while True:
        tell(0.0)
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pid_in(file: Path) -> int:
    eventually(lambda: file.exists() and file.read_text() != "")
    return int(file.read_text())


def test_results_come_in_the_order_of_the_tasks_and_progress_with_their_names() -> None:
    seen: list[tuple[str, float]] = []
    tasks = {str(number): partial(square, number) for number in (3, 1, 2)}
    found = run_apart(tasks, processes=2, seen=lambda name, told: seen.append((name, told)))
    assert list(found.items()) == [("3", 9), ("1", 1), ("2", 4)]
    assert sorted(seen) == [("1", 0.5), ("2", 1.0), ("3", 1.5)]


def test_an_error_of_a_task_is_raised_and_ends_the_others(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(CallerError, match="no such thing"):
        run_apart({"long": partial(last, file), "wrong": refuse}, processes=2)
    assert not file.exists() or not is_alive(int(file.read_text()))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (be_killed, "the process of it was ended by SIGKILL; if memory is short"),
        (crash, "the process of it ended with exit code 7"),
        (crash_in_the_middle_of_a_message, "the process of it ended with exit code 7"),
    ],
)
def test_a_process_that_is_lost_is_named_with_its_end(
    task: Callable[[Tell], int], said: str
) -> None:
    with pytest.raises(RemoteError, match=said):
        run_apart({"it": task}, processes=1)


PARENT = """
import sys
sys.path[:0] = {path!r}
from functools import partial
from pathlib import Path
from headrace.sim.apart import run_apart
from test_sim_apart import last
run_apart({{"long": partial(last, Path({file!r}))}}, processes=1)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_an_interrupt_or_the_parent(
    number: signal.Signals, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    script = PARENT.format(
        path=[str(folder) for folder in Path(__file__).parents[:2]], file=str(file)
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    child = pid_in(file)
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)  # as a terminal does it
    else:
        parent.send_signal(number)
    said = parent.communicate(timeout=SOON_S)[1]
    assert said.count("Traceback") == (number == signal.SIGINT), "only the parent says anything"
    eventually(lambda: not is_alive(child))


def test_an_interrupt_waits_until_a_process_has_its_task() -> None:
    before = signal.getsignal(signal.SIGINT)
    done, steps = threading.Event(), []
    other = threading.Thread(target=done.wait)  # as a numerical library has: it takes the signal
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), _interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            steps.append("started")
    finally:
        done.set()
        other.join()
    assert steps == ["started"]
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
