"""Traced programs run as untraced ones do, and leave a trace whatever becomes of them."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from traced_programs import events_in, traced, traced_script

from headrace.cli.main import run as run_headrace
from headrace.trace.importers.segments import count_events
from headrace.tracing.collecting import Collector
from headrace.tracing.probe import is_launcher
from headrace.tracing.processes import ProcessSampler
from headrace.tracing.run import default_job
from waiting import eventually

PLAIN = "import os, sys; sys.stdout.write(repr((sys.argv, sys.path, os.getcwd(), __name__)))"


def until_there(path: Path, *lines: str, indent: int = 0) -> str:
    """Return lines of a script that go on until there is a file, and half a minute at most."""
    loop = (
        "until = time.monotonic() + 30",
        f"while not os.path.exists({str(path)!r}) and time.monotonic() < until:",
        *(f"    {line}" for line in (*lines, "time.sleep(0.01)")),
    )
    return "".join(f"{' ' * indent}{line}\n" for line in loop)


def untraced(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_script_sees_the_arguments_and_the_paths_that_it_would_see(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = traced_script(PLAIN, tmp_path, "--out", "-o", "a b", "")
    said = capfd.readouterr()
    command = (sys.executable, str(tmp_path / "script.py"), "--out", "-o", "a b", "")
    assert outcome.exit_code == 0
    assert said.out == untraced(*command)
    assert said.err == ""


def test_a_module_runs_as_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(PLAIN + "; open('data').read()")
    Path("data").write_text("data")
    outcome = traced([sys.executable, "-m", "mine", "x"], tmp_path)
    assert "'__main__'" in capfd.readouterr().out
    (read,) = outcome.of("request")
    assert (read["file"], read["bytes"]) == (str(tmp_path / "data"), 4)


def test_a_python_without_headrace_is_recorded_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import importlib.util as u, sys; file = open(sys.argv[1], 'w'); file.write('12345');"
        "file.close(); print(u.find_spec('headrace'), u.find_spec('msgspec'))"
    )
    python = str(Path(sys.base_prefix, "bin", "python{}.{}".format(*sys.version_info)))
    outcome = traced([python, "-c", script, str(tmp_path / "out")], tmp_path)
    assert capfd.readouterr().out == "None None\n"
    assert [event["bytes"] for event in outcome.of("request")] == [5]


def test_a_sitecustomize_of_the_users_own_runs_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.mine = __file__")
    monkeypatch.setenv("PYTHONPATH", str(own))
    script = "import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)"
    assert traced_script(script, tmp_path).exit_code == 0
    assert capfd.readouterr().out == f"{own}/sitecustomize.py {own}/sitecustomize.py\n"


def test_an_error_in_a_sitecustomize_of_the_users_own_is_said_as_without(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert traced_script("print(open(__file__ + 'x', 'w').write('x'))", tmp_path).events
    said = capfd.readouterr()
    assert said.out == "1\n"
    assert "ValueError: mine" in said.err


def test_a_script_that_fails_fails_with_its_own_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = traced_script("open('/no/such/file')", tmp_path)
    assert outcome.exit_code == 1
    said = capfd.readouterr().err
    assert said.splitlines()[-1].startswith("FileNotFoundError: [Errno 2] No such file")
    assert f'File "{tmp_path}/script.py", line 1, in <module>' in said


def test_processes_that_it_starts_are_recorded_each_as_itself(tmp_path: Path) -> None:
    outcome = traced_script(
        "import multiprocessing, os, subprocess, sys\n"
        "def write(name):\n"
        "    with open(f'{os.path.dirname(__file__)}/{name}', 'w') as file: file.write(name)\n"
        "if __name__ == '__main__':\n"
        "    write('main')\n"
        "    for way in ('fork', 'spawn', 'forkserver'):\n"
        "        child = multiprocessing.get_context(way).Process(target=write, args=(way,))\n"
        "        child.start(); child.join()\n"
        '    script = \'import sys; open(sys.argv[1], "w").write("sub")\'\n'
        "    subprocess.run([sys.executable, '-c', script, os.path.dirname(__file__) + '/sub'])\n",
        tmp_path,
    )
    wrote = {Path(event["file"]).name: event["pid"] for event in outcome.of("request")}
    assert set(wrote) == {"main", "fork", "spawn", "forkserver", "sub"}
    assert len(set(wrote.values())) == 5


def test_a_process_that_outlives_the_program_goes_on_unrecorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.tracing.run.LEFT_BEHIND_S", 0.2)
    outcome = traced_script(
        "import os, sys, time\n"
        "once = sys.argv[1] + '-once'\n"
        "if not os.fork():\n"
        + until_there(
            tmp_path / "ended",
            "with open(sys.argv[1], 'w') as file: file.write('x')",
            "os.rename(sys.argv[1], once)",
            indent=4,
        )
        + "    os.rename(once, sys.argv[1] + '-done')\n"
        "else:\n" + until_there(tmp_path / "out-once", indent=4),
        tmp_path,
        str(tmp_path / "out"),
    )
    assert outcome.exit_code == 0
    assert outcome.of("request")
    (tmp_path / "ended").touch()
    eventually((tmp_path / "out-done").exists)


def test_a_process_that_becomes_another_program_is_recorded_as_both(tmp_path: Path) -> None:
    outcome = traced_script(
        "import os, sys\n"
        "with open(sys.argv[1] + sys.argv[2], 'w') as file: file.write('x')\n"
        "if sys.argv[2] != '3':\n"
        "    again = [*sys.argv[:2], str(int(sys.argv[2]) + 1)]\n"
        "    os.execv(sys.executable, [sys.executable, *again])\n",
        tmp_path,
        str(tmp_path / "out"),
        "1",
    )
    assert [event["file"][-4:] for event in outcome.of("request")] == ["out1", "out2", "out3"]
    assert len({event["pid"] for event in outcome.events}) == 1


def test_a_program_whose_spool_is_removed_goes_on_to_its_own_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.tracing.run.LOOK_S", 0.05)
    collect = Collector.collect

    def collect_and_tell(collector: Collector) -> None:
        collect(collector)
        if collector.statistics().events:
            (tmp_path / "taken").touch()

    monkeypatch.setattr(Collector, "collect", collect_and_tell)
    outcome = traced_script(
        "import os, shutil, sys, time\n"
        "open(sys.argv[1], 'wb').close()\n"
        + until_there(tmp_path / "taken")
        + "shutil.rmtree(os.environ['HEADRACE_TRACE_SPOOL'])\n"
        "open(sys.argv[1], 'wb').close()\n"
        "sys.exit(5)\n",
        tmp_path,
        str(tmp_path / "out"),
    )
    assert outcome.exit_code == 5
    assert len(outcome.of("metadata")) == 2
    (warning,) = caplog.records
    assert "was removed" in warning.message


def test_a_killed_program_leaves_all_that_it_recorded(tmp_path: Path) -> None:
    outcome = traced_script(
        "import os, signal, sys\n"
        "for number in range(50):\n"
        "    with open(sys.argv[1], 'wb') as file: file.write(b'x' * number)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        tmp_path,
        str(tmp_path / "out"),
    )
    assert outcome.exit_code == 128 + signal.SIGKILL
    assert [event["bytes"] for event in outcome.of("request")] == list(range(1, 50))


def test_a_program_that_leaves_at_once_leaves_what_it_read_of_open_files(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(20))
    outcome = traced_script(
        "import os, sys\n"
        "file = open(sys.argv[1], 'rb', 0)\n"
        "file.read(5)\n"
        "if os.fork():\n"
        "    os.wait()\n"
        "    os._exit(3)\n"
        "file.read(6)\n"
        "os.execlp('true', 'true')\n",
        tmp_path,
        str(tmp_path / "data"),
    )
    assert outcome.exit_code == 3
    assert sorted(event["bytes"] for event in outcome.of("request")) == [5, 6]


def test_when_all_is_killed_at_once_the_trace_has_what_went_before(tmp_path: Path) -> None:
    script, trace = tmp_path / "script.py", tmp_path / "trace"
    script.write_text(
        "import sys, time\n"
        "while True:\n"
        "    with open(sys.argv[1], 'w') as file: file.write(str(time.time_ns()))\n"
        "    time.sleep(0.01)\n"
    )
    command = [sys.executable, "-m", "headrace", "trace", "run", "-o", str(trace), "--"]
    running = subprocess.Popen(
        [*command, sys.executable, str(script), str(tmp_path / "out")], start_new_session=True
    )
    try:
        eventually(lambda: any(map(count_events, trace.glob("*.arrows"))))
        looked_ns = time.time_ns()
        eventually(lambda: last_begin_ns(trace) > looked_ns)
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert last_begin_ns(trace) > looked_ns


def last_begin_ns(trace: Path) -> int:
    return max(event["begin_ns"] for event in events_in(trace))


@pytest.fixture
def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once a program was sampled often enough to tell what it did."""
    monkeypatch.setattr("headrace.tracing.run.LOOK_S", 0.05)
    sample, looks = ProcessSampler.sample, itertools.count(1)

    def sample_and_tell(sampler: ProcessSampler, ranks: Mapping[int, int | None]) -> None:
        sample(sampler, ranks)
        if ranks and next(looks) >= 4:
            (tmp_path / "sampled").touch()

    monkeypatch.setattr(ProcessSampler, "sample", sample_and_tell)
    return tmp_path / "sampled"


def test_what_the_kernel_counts_is_recorded_too(tmp_path: Path, sampled: Path) -> None:
    outcome = traced_script(
        "import os, sys, time\n"
        "with open(sys.argv[1], 'w'): pass\n"
        + until_there(
            sampled, "file = os.open(sys.argv[0], os.O_RDONLY); os.read(file, 100); os.close(file)"
        ),
        tmp_path,
        str(tmp_path / "out"),
    )
    counted = [event for event in outcome.of("call") if event["name"] == "process_io"]
    assert counted
    assert max(dict(event["counts"])["rchar_bytes"] for event in counted) >= 100


def test_the_command_says_what_is_in_the_trace_and_gives_the_programs_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], sampled: Path
) -> None:
    trace = tmp_path / "a trace"
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time; open(__file__ + '.out', 'w').close()\n"
        "file = os.open(__file__, os.O_RDONLY)\n"
        + until_there(sampled, "os.pread(file, 100, 0)")
        + "raise SystemExit(7)"
    )
    arguments = ["trace", "run", "--out", str(trace), "--", sys.executable, str(script)]
    assert run_headrace(arguments) == 7
    said, events = capfd.readouterr(), events_in(trace)
    assert said.out == ""
    assert said.err == (
        f"headrace: recorded {len(events)} events of 1 process in {trace}; analyse them: "
        f"headrace analyze '{trace}'\n"
    )
    assert {event["job"] for event in events} == {"script"}
    assert "process_io" in {event.get("name") for event in events}


def test_programs_that_are_started_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").touch()
    reads = [sys.executable, "-c", "open('data').read()"]
    command = [sys.executable, "-m", "headrace", "trace", "run", "--job", "a/b", "--", *reads]
    running = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [one.wait(60) for one in running] == [0, 0]
    names = sorted(path.name.rpartition("-")[2] for path in (tmp_path / "traces").iterdir())
    assert names == sorted(str(one.pid) for one in running)


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_pythons_that_leave_the_recorder_out_are_told_of(
    option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["trace", "run", "-o", str(tmp_path / "trace"), sys.executable, option, "-c", ""]
    assert run_headrace(arguments) == 0
    assert "nothing was recorded" in capfd.readouterr().err


def test_a_program_that_is_not_there_is_a_wrong_call(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_headrace(["trace", "run", "-o", str(tmp_path / "trace"), "no-such-program"]) == 2
    assert "cannot run no-such-program" in capfd.readouterr().err
    assert not (tmp_path / "trace").exists()


def test_a_library_that_is_not_as_expected_is_left_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "safetensors.py").write_text("is_another = True")
    outcome = traced_script(
        "import safetensors; print(safetensors.is_another); open(__file__ + 'x', 'w').close()",
        tmp_path,
    )
    said = capfd.readouterr()
    assert said.out == "True\n"
    assert said.err.count("\n") == 1
    assert "uses of safetensors of process" in said.err
    assert outcome.of("metadata")


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        (["python", "/env/bin/torchrun", "train.py"], True),
        (["python", "-u", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-u", "train.py", "torchrun"], False),
        (["python", "-m", "train"], False),
        (["python", "-c", "pass"], False),
        (["python"], False),
    ],
)
def test_programs_that_only_start_others_are_known(command: list[str], is_one: bool) -> None:
    assert is_launcher(command) == is_one


@pytest.mark.parametrize(
    ("command", "environment", "job"),
    [
        (["python", "-u", "a/train.py", "x"], {}, "train"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], {}, "train"),
        (["python", "-m", "mine"], {}, "python"),
        (["python", "train.py"], {"SLURM_JOB_ID": "41"}, "41"),
    ],
)
def test_a_job_is_called_as_its_run_or_its_script(
    command: list[str], environment: dict[str, str], job: str
) -> None:
    assert default_job(command, environment) == job
