"""``headrace checkpoint pin``, ``unpin`` and ``prune`` as people call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.main import run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for step in (10, 20, 30):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
        (folder / "trainer_state.json").write_text("{}")
    return tmp_path


def there(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir() if not path.name.startswith("."))


def test_old_checkpoints_are_removed_and_told(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["checkpoint", "prune", str(runs), "--keep", "2", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would be removed: checkpoint-10\n"
    assert len(there(runs)) == 3
    assert run(["checkpoint", "prune", str(runs), "--keep", "2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == ["checkpoint-10"]
    assert there(runs) == ["checkpoint-20", "checkpoint-30"]
    assert run(["checkpoint", "prune", str(runs), "--keep", "2"]) == 0
    assert "nothing to remove" in capsys.readouterr().err


def test_a_pinned_one_stays_until_its_pin_is_removed(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(runs / "checkpoint-10")
    assert run(["checkpoint", "pin", url, "--for", "2h"]) == 0
    owner = capsys.readouterr().out.strip()
    assert run(["checkpoint", "prune", str(runs), "--keep", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "removed: checkpoint-20",
        f"stays, for {owner} (for 2.00 h more) reads it: checkpoint-10",
    ]
    assert run(["checkpoint", "unpin", url, "--owner", "somebody"]) == 2
    error = capsys.readouterr().err
    assert owner in error
    assert "for 2.00 h more" in error
    assert run(["checkpoint", "unpin", url, "--owner", owner]) == 0
    assert capsys.readouterr().err == "removed 1 pin\n"
    assert run(["checkpoint", "prune", str(runs), "--keep", "1"]) == 0
    assert there(runs) == ["checkpoint-30"]


def test_all_pins_are_removed_if_that_is_asked_for(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(runs / "checkpoint-10")
    for owner in ("a", "b"):
        assert run(["checkpoint", "pin", url, "--owner", owner]) == 0
    assert run(["checkpoint", "unpin", url]) == 2
    assert run(["checkpoint", "unpin", url, "--all", "--owner", "a"]) == 2
    assert run(["checkpoint", "unpin", url, "--all"]) == 0
    assert "removed 2 pins\n" in capsys.readouterr().err
    assert run(["checkpoint", "unpin", url, "--owner", "a"]) == 2
    assert "nobody has" in capsys.readouterr().err


def test_a_damaged_one_can_be_pinned(runs: Path) -> None:
    (runs / "checkpoint-10/model.safetensors").write_bytes(b"\xff" * 20)
    assert run(["checkpoint", "pin", str(runs / "checkpoint-10")]) == 0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (["pin", "checkpoint-40"], "checkpoint-40"),
        (["pin", "."], "holds 3; name one"),
        (["pin", "checkpoint-10", "--owner", "../x"], "owner"),
        (["pin", "checkpoint-10", "--for", "soon"], "2h"),
        (["pin", "checkpoint-10", "--for", "0s"], "more than 0 s, and at most 400 days"),
        (["prune", ".", "--keep", "0"], "0"),
        (["prune", "nowhere", "--keep", "1"], "nowhere"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    call: list[str],
    reason: str,
) -> None:
    monkeypatch.chdir(runs)
    assert run(["checkpoint", *call]) == 2
    assert reason in capsys.readouterr().err
    assert len(there(runs)) == 3
