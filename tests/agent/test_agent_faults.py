"""What must not go wrong when workers, clients or the host misbehave. Real processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from client_for_tests import Job, make_dataset
from PIL import Image

from headrace.agent.local import LocalAgent
from headrace.cli.main import run
from headrace.core.errors import AgentUnavailableError
from headrace.core.record import Record
from headrace.core.roster import RosterEntry
from headrace.dataset.build import build_index
from headrace.storage.opening import open_storage
from headrace.transform import ops
from headrace.transform.ops.user import UserOp
from headrace.transform.pipeline import Pipeline
from headrace.wire import child
from headrace.wire.auth import TOKEN_VARIABLE
from headrace.wire.frames import FrameHeader
from waiting import eventually

Said = Callable[..., str]
"""Runs ``headrace agent`` with options that must be refused, and returns what it says."""

CONTROLLER = (
    "--controller",
    "https://127.0.0.1:1",
    "--tier",
    "hdd=1MB/s",
    "--listen",
    "127.0.0.1:0",
)
"""Options of an agent that obeys a controller."""

DECODING = Pipeline((ops.DecodeImage(),))

QUIET = ("--cpu-threshold", "1")
"""Options of an agent that does not mind who else uses this host."""

PATIENCE_S = 90.0
"""Workers run at the lowest priority, and a test may not be alone on its machine [s]."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that ends in time takes two seconds, and is not killed where the host is busy."""
    monkeypatch.setattr(child, "STOP_TIMEOUT_S", 12.0)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("served") / "photos")


@pytest.fixture(scope="module")
def misbehaving(dataset: Path) -> Iterator[LocalAgent]:
    """An agent that may run the tests' bad ops, within tight limits."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(Path(__file__).parent))
    options = ["--allow-op", "ops_for_tests:*", "--workers", "1", "--task-seconds", "5"]
    options += ["--worker-memory", "512MiB", "--memory", "64MiB", *QUIET]
    with LocalAgent([dataset.parent], options=options) as agent:
        yield agent
    patch.undo()


def with_op(name: str) -> Pipeline:
    return Pipeline((ops.DecodeImage(), UserOp(path=f"ops_for_tests:{name}", fields=("image",))))


def children(agent: LocalAgent) -> list[psutil.Process]:
    try:
        return psutil.Process(agent.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize(("op", "says"), [("hang", "5 s"), ("die", "-9"), ("devour", "memory")])
def test_a_sample_that_ends_its_worker_twice_comes_raw_and_others_go_on(
    misbehaving: LocalAgent, dataset: Path, op: str, says: str
) -> None:
    job = Job(misbehaving, dataset, with_op(op), cut=2)
    assert job.register(roster=(RosterEntry(name="somebody else"),)).mode == "transform"
    header, record = job.fetch(1)[1]
    assert (header.kind, header.code) == ("raw", "crashed")
    assert says in header.reason
    assert record["image"] == (dataset / "001.jpg").read_bytes()
    job.connection.send("DELETE", job.path)
    assert job.connection.receive().status == 204
    plain = Job(misbehaving, dataset)
    plain.register()
    assert plain.fetch(2)[2][0].kind == "tensor"


def test_a_result_larger_than_foreseen_gets_the_memory_it_needs(
    misbehaving: LocalAgent, dataset: Path
) -> None:
    job = Job(misbehaving, dataset, with_op("swell"), cut=2)
    job.register()
    header, record = job.fetch(1)[1]
    assert header.kind == "tensor"
    np.testing.assert_array_equal(record["image"], job.expected(1)["image"])


def test_a_pipeline_that_kills_workers_on_golden_vectors_is_served_raw(
    misbehaving: LocalAgent, dataset: Path
) -> None:
    job = Job(misbehaving, dataset, with_op("die_always"), cut=2)
    answer = job.register()
    assert answer.mode == "raw-only"
    assert "golden" in answer.reason
    assert job.fetch(1)[1][0].code == "raw-only"


def test_a_dataset_that_vanished_takes_no_worker_from_other_jobs(tmp_path: Path) -> None:
    first, second = (make_dataset(tmp_path / "served" / name, count=8) for name in "ab")
    options = ["--workers", "1", *QUIET]
    with LocalAgent([tmp_path / "served"], options=options) as agent:
        for dataset in (first, second):
            Job(agent, dataset).register()
        shutil.rmtree(first)
        children(agent)[0].kill()
        header, _ = Job(agent, second).fetch(1)[1]
        assert header.kind == "tensor"


def test_an_image_bomb_costs_one_sample(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "served" / "bombs", count=8)
    Image.new("L", (12000, 12000)).save(dataset / "007.png")
    storage = open_storage(str(dataset))
    build_index(storage).save(storage)
    options = ["--workers", "1", "--worker-memory", "256MiB", *QUIET]
    pipeline = Pipeline((ops.DecodeImage(max_pixels=150_000_000), ops.CenterCrop(32)))
    with LocalAgent([tmp_path / "served"], options=options) as agent:
        job = Job(agent, dataset, pipeline)
        job.register()
        frames = job.fetch(1, 7, 8, wait_s=PATIENCE_S)
    assert [frames[n][0].kind for n in (1, 7)] == ["tensor", "tensor"]
    assert (frames[8][0].kind, frames[8][0].code) == ("raw", "crashed")


def test_workers_killed_under_load_lose_no_sample_and_change_no_byte(dataset: Path) -> None:
    with LocalAgent([dataset.parent], options=["--workers", "2", *QUIET]) as agent:
        job = Job(agent, dataset)
        job.register()
        killer = Killer(agent)
        with killer:
            step = 0
            while killer.kills < 3:
                frames = job.fetch(*range(24), step=step)
                assert set(frames) == set(range(24))
                for sample in (0, 11, 23):
                    require_right(job, sample, *frames[sample])
                step += 1
        eventually(lambda: job.statistics()["worker_restarts"] >= 3)  # type: ignore[operator]
        eventually(lambda: job.statistics()["workers_live"] == 2)


def require_right(job: Job, sample: int, header: FrameHeader, record: Record) -> None:
    if header.kind == "tensor":
        np.testing.assert_array_equal(record["image"], job.expected(sample)["image"])
    else:
        assert (header.kind, header.code) in (("raw", "crashed"), ("raw", "late"))


class Killer:
    """Kills one of an agent's workers every second while its context is open."""

    def __init__(self, agent: LocalAgent) -> None:
        self.kills = 0
        self._agent = agent
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(1.0):
            for worker in children(self._agent)[:1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.send_signal(signal.SIGKILL)
                    self.kills += 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_told_to_stop_leaves_nothing_behind(
    dataset: Path, tmp_path: Path, how: signal.Signals
) -> None:
    socket_path = tmp_path / "agent.sock"
    options = ["--workers", "2", "--unix", str(socket_path), *QUIET]
    agent = LocalAgent([dataset.parent], options=options).start()
    job = Job(agent, dataset)
    job.register()
    job.send(*range(24), step=900)
    workers = children(agent)
    assert workers
    os.kill(agent.pid, how)
    assert agent.stop() == 0
    assert not [worker for worker in workers if worker.is_running()]
    assert not socket_path.exists()


FREEZING = """
import os
from headrace.storage import local

read = local._pread
def read_unless_frozen(*given):
    if os.path.exists(os.environ["FROZEN"]):
        os.read(os.pipe()[0], 1)  # for ever, as on a mount whose server is away
    return read(*given)
local._pread = read_unless_frozen
"""
"""``sitecustomize`` of an agent and its workers whose storage can be frozen."""


def test_an_agent_whose_storage_is_frozen_ends_in_time(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(FREEZING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FROZEN", str(tmp_path / "frozen"))
    words = (tmp_path / "words").open("wb")
    agent = LocalAgent([dataset.parent], options=["--workers", "1", *QUIET], stderr=words).start()
    words.close()
    first, second, third = Job(agent, dataset), Job(agent, dataset, DECODING), Job(agent, dataset)
    first.register()
    (tmp_path / "frozen").touch()
    first.send(*range(24), wait_s=0.1)
    second.connection.send("PUT", second.path, msgspec.json.encode(second.message()))
    third.connection.send("GET", f"/v1/index?url={dataset}")
    time.sleep(0.5)
    assert agent.stop() == 0
    assert "Traceback" not in (tmp_path / "words").read_text()


def test_an_agent_that_is_killed_takes_its_workers_along(dataset: Path) -> None:
    agent = LocalAgent([dataset.parent], options=["--workers", "2"]).start()
    eventually(lambda: len(children(agent)) == 2)
    workers = children(agent)
    agent.kill()
    eventually(lambda: not any(alive(worker) for worker in workers))


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_agent_ends_with_the_process_that_started_it(dataset: Path) -> None:
    script = (
        "import sys, os\n"
        "from headrace.agent.local import LocalAgent\n"
        f"agent = LocalAgent([{str(dataset.parent)!r}]).start()\n"
        "print(agent.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    agent = int(ended.stdout)
    eventually(lambda: not psutil.pid_exists(agent) or not alive(psutil.Process(agent)))


def test_an_agent_comes_back_at_the_same_address_with_another_boot(dataset: Path) -> None:
    with LocalAgent([dataset.parent], options=["--workers", "1", *QUIET]) as agent:
        job = Job(agent, dataset)
        first, address = job.register(), agent.address
        agent.kill()
        agent.start()
        assert agent.address == address
        second = job.register()
        assert second.boot != first.boot
        assert second.agent == first.agent
        assert job.fetch(3)[3][0].kind == "tensor"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    monkeypatch.setenv(TOKEN_VARIABLE, "0123456789abcdef")

    def run_wrongly(*options: str) -> str:
        assert run(["agent", *options]) == 2
        return capsys.readouterr().err

    return run_wrongly


def test_a_second_agent_at_the_same_port_says_so(
    misbehaving: LocalAgent, dataset: Path, said: Said
) -> None:
    address = misbehaving.address.removeprefix("http://")
    words = said("--root", str(dataset), "--listen", address)
    assert "another process" in words
    assert "--listen" in words


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--root", "/nowhere/at/all"], "not a directory"),
        ([], "--root"),
        (["--root", "/tmp", "--listen", "nonsense"], "HOST:PORT"),
        (["--root", "/tmp", "--listen", "203.0.113.9:0"], "cannot listen"),
        (["--root", "/tmp", "--tls-cert", "x.pem"], "--tls-key"),
        (["--root", "/tmp", "--token-file", "/nowhere"], "token"),
        (["--root", "/tmp", "--memory", "lots"], "2GiB"),
        (["--root", "/tmp", "--workers", "-1"], "workers"),
        (["--root", "/tmp", "--config", "/nowhere.toml"], "nowhere.toml"),
        (["--root", "/tmp", "--workers", "99999"], "for each CPU"),
        (["--root", "/tmp", "--task-seconds", "nan"], "task_s"),
        (["--root", "/tmp", "--lead-seconds", "nan"], "not finite"),
        (["--root", "/tmp", "--memory", "99TB"], "memory that this host has"),
        (["--root", "/tmp", "--range-memory", "99TB"], "memory that this host has"),
        (["--root", "/tmp", *CONTROLLER, "--controller-ca", "/nowhere.pem"], "/nowhere.pem"),
        (["--root", "/tmp", "--controller", "http://h:1", "--controller-ca", "x"], "https://"),
        (["--root", "/tmp", "--controller-ca", "x"], "https://"),
        (["--root", "/tmp", *CONTROLLER, "--controller-ca", "/dev/null"], "name a PEM file"),
    ],
)
def test_a_wrong_call_ends_with_one_clear_line(options: list[str], says: str, said: Said) -> None:
    words = said(*options)
    assert says in words
    assert "Traceback" not in words


def test_a_configuration_file_gives_defaults_and_its_typos_are_named(
    tmp_path: Path, said: Said
) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('root = ["/nowhere/1"]\nworkers = 3\n')
    assert "/nowhere/1" in said("--config", str(config))
    config.write_text("worker = 3\n")
    assert "did you mean 'workers'?" in said("--config", str(config))


def test_a_local_agent_that_cannot_start_says_so(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailableError, match="did not start"):
        LocalAgent([tmp_path / "nothing"], stderr=subprocess.DEVNULL).start()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('root = "/tmp"', "must be a list"),
        ("root = [5]", "must be text, not 5"),
        ("tls-cert = []", "must be text"),
        ("token-file = {a = 1}", "must be text"),
        ("workers = 1.5", "must be a whole number"),
        ("workers = inf", "must be a whole number"),
        ("lead-seconds = 2020-01-01", "must be text or a number"),
    ],
)
def test_a_value_of_the_wrong_type_in_the_configuration_is_named(
    line: str, says: str, tmp_path: Path, said: Said
) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(line)
    words = said("--config", str(config))
    assert says in words
    assert words.count("\n") == 1


def test_an_agent_that_cannot_tell_its_address_ends_with_one_line_about_it(
    dataset: Path, tmp_path: Path, said: Said
) -> None:
    options = ["--root", str(dataset), "--listen", "127.0.0.1:0", "--workers", "0"]
    words = said(*options, "--ready-file", str(tmp_path / "missing" / "ready"))
    assert "--ready-file" in words.splitlines()[-1]
    assert "Traceback" not in words


def test_ctrl_c_right_after_the_start_ends_an_agent_without_tracebacks(dataset: Path) -> None:
    command = [sys.executable, "-m", "headrace", "agent", "--root", str(dataset)]
    command += ["--listen", "127.0.0.1:0", "--workers", "2"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, TOKEN_VARIABLE: "0123456789abcdef"},
        process_group=0,
    ) as agent:
        assert agent.stderr is not None
        assert "answers at" in agent.stderr.readline()
        eventually(lambda: psutil.Process(agent.pid).children())
        os.killpg(agent.pid, signal.SIGINT)  # as a terminal does
        assert agent.stderr.read() == ""
        assert agent.wait(20) == 0
