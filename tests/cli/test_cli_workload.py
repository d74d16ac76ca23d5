"""headrace workload: models fitted, shown and made into traces; what is wrong is said first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.analysis.workload.model import SHIPPED, Model, find_model
from headrace.cli.main import run
from headrace.report.toml import read_toml, toml_text
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.opening import open_trace
from headrace.trace.parquetfile import EventParquetWriter

HOSTILE = "[b]evil\x1b[2J"


def store(path: Path, *events: Event) -> str:
    with EventParquetWriter(path) as writer:
        writer.write(batch_of(events))
        writer.commit()
    return str(path)


def steps(job: str | None, count: int = 5) -> list[Event]:
    return [
        Event(kind=Kind.STEP, begin_ns=k * 10**9, duration_ns=10**9, job=job, rank=0, step=k)
        for k in range(count)
    ]


def test_a_trace_is_made_of_a_model_and_fitted_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, model = tmp_path / "made", tmp_path / "model.toml"
    call = ["workload", "synthesize", "t-s", "--ranks", "32", "--steps", "50", "-o", str(out)]
    assert run(call) == 0
    assert "3,264 events of 32 ranks in " in capsys.readouterr().out
    assert run(["workload", "fit", str(out), "-o", str(model)]) == 0
    assert "T-S (ranks 32, hosts 4, steps 50)" in capsys.readouterr().out
    found = read_toml(model, Model)
    assert (found.name, found.source) == ("T-S", "headrace trace")
    assert found.step.mean == pytest.approx(find_model("T-S").step.mean, rel=0.05)
    assert run(["workload", "show", str(model)]) == 0
    assert "load of a batch" in capsys.readouterr().out


def test_the_same_seed_makes_the_same_trace(tmp_path: Path) -> None:
    def made(folder: str, seed: str) -> list[dict[str, object]]:
        call = ["workload", "synthesize", "MM-L", "--ranks", "72", "--steps", "3"]
        assert run([*call, "--seed", seed, "-o", str(tmp_path / folder)]) == 0
        batches = open_trace([tmp_path / folder]).batches()
        return [row for batch in batches for row in batch.to_pylist()]

    assert made("a", "5") == made("b", "5") != made("c", "6")


def test_without_an_output_the_model_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = store(tmp_path / "trace.parquet", *steps("job"))
    assert run(["workload", "fit", trace, "--name", "mine"]) == 0
    assert 'name = "mine"' in capsys.readouterr().out


def test_the_reference_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workload", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in SHIPPED) and "139 s" in shown
    assert run(["workload", "list", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert [one["name"] for one in listed] == list(SHIPPED)
    assert run(["workload", "show", "MM-L", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["load"]["stragglers"] == [8.03]


def test_a_hostile_name_of_a_job_is_harmless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = store(tmp_path / "trace.parquet", *steps(HOSTILE))
    model = tmp_path / "model.toml"
    assert run(["workload", "fit", trace, "-o", str(model)]) == 0
    shown = capsys.readouterr().out
    assert "[b]evil" in shown and "\x1b[2J" not in shown
    assert read_toml(model, Model).name == HOSTILE
    assert run(["workload", "synthesize", str(model), "-o", str(tmp_path / "made")]) == 0


def test_a_name_is_no_way_out_of_the_directory(tmp_path: Path) -> None:
    model = tmp_path / "model.toml"
    for name in ("../../out", "..", "a/b", ".hidden"):
        model.write_text(toml_text(find_model("T-S")).replace('"T-S"', json.dumps(name)))
        made = tmp_path / "deep" / "made"
        call = ["workload", "synthesize", str(model), "--ranks", "8", "--steps", "1"]
        assert run([*call, "-o", str(made), "--seed", str(len(name))]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "model.toml"}
    assert len([path for path in made.iterdir() if not path.name.startswith(".")]) == 4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["show", "MM-X"], "did you mean 'MM-"),
        (["show", "missing.toml"], "there is no file missing.toml"),
        (["synthesize", "MM-L", "--ranks", "64", "-o", "out"], "ask for at least 65 ranks"),
        (["synthesize", "T-S", "-o", "file"], "Directory 'file' is a file"),
        (["synthesize", "bad.toml", "-o", "out"], "bad.toml: unknown key 'rank'; did you mean"),
        (["show", "family.toml"], "did you mean 'sigma'"),
        (["show", "inf.toml"], "inf is no number"),
        (["fit", "missing"], "there is no trace missing"),
        (["fit", "two.parquet"], "the trace has 2 jobs; name one with --job: a, b"),
        (["fit", "two.parquet", "--job", "c"], "neither steps nor loads of job c"),
        (["fit", "empty.parquet"], "neither steps nor loads"),
        (["fit", "two.parquet", "-o", "no/where.toml"], "there is no directory no"),
    ],
)
def test_a_call_that_is_wrong_is_refused_with_the_reason(
    call: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "two.parquet", *steps("a"), *steps("b"))
    store(tmp_path / "empty.parquet")
    Path("file").touch()
    whole = toml_text(find_model("T-S"))
    Path("bad.toml").write_text(f"rank = 7\n{whole}")
    Path("family.toml").write_text(whole.replace("sigma = 0.05", "sigm = 0.05"))
    Path("inf.toml").write_text(whole.replace("mean = 14.03", "mean = inf"))
    assert run(["workload", *call]) == 2
    assert said in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_trace_is_not_made_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["workload", "synthesize", "T-S", "--ranks", "8", "--steps", "2", "-o", str(tmp_path)]
    assert (run(call), run(call)) == (0, 2)
    assert "is there already" in capsys.readouterr().err
