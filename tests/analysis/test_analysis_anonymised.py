"""An anonymised trace is analysed to the same figures as its original; only names differ."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from headrace.analysis.analyser import Analyser
from headrace.analysis.figures import Analysis
from headrace.analysis.workload.distributions import Lognormal
from headrace.analysis.workload.fitting import fit_model
from headrace.analysis.workload.model import (
    Files,
    Linked,
    Load,
    Model,
    Quantity,
    Requests,
    Transfer,
)
from headrace.analysis.workload.synthesis import Synthesis
from headrace.trace.anonymise import Anonymiser
from headrace.trace.events import Event, Kind, Phase, batch_of
from headrace.trace.importer import Notes
from headrace.trace.opening import open_trace

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "traces"
REAL = Path(os.environ.get("HEADRACE_REAL_TRACES", BESIDE))
"""Of other tools; no part of the project."""

KEY = b"a key of sixteen bytes or more"


def lognormal(mean: float) -> Lognormal:
    return Lognormal(mean=mean, sigma=0.3)


MODEL = Model(
    version=1,
    name="merger-with-acme",
    ranks=32,
    ranks_per_host=2,
    steps=60,
    step=Quantity(distribution=lognormal(2.0)),
    wait=Quantity(distribution=lognormal(0.4), zero_share=0.3),
    load=Load(
        seconds=Quantity(distribution=lognormal(1.5)),
        unit="sample",
        per_step=2.5,
        stragglers=(5.0,),
        parts={"transformation": Linked(distribution=lognormal(1.0), correlation=0.9)},
    ),
    requests=Requests(
        per_step=2,
        seconds=Linked(distribution=lognormal(0.02)),
        bytes=lognormal(1e6),
        files=Files(count=8, zipf=1.0, suffix=".tar"),
    ),
    checkpoint_save=Transfer(
        seconds=Quantity(distribution=lognormal(5.0)), bytes=lognormal(1e9), period_steps=20
    ),
)

NAMED = [
    Event(
        kind=Kind.LOAD,
        begin_ns=k * 10**9,
        duration_ns=(10 + 90 * (k % 4 == 0)) * 10**7,
        job="merger-with-acme",
        host=f"node-{k % 8}",
        rank=k % 8,
        pid=100 + k % 8,
        phase=Phase.ITERATION,
        step=k // 8,
        sample=f"acme/{k}.{'hidden' if k % 4 == 0 else 'jpg'}",
        file=f"hdfs://nn:8020/acme/{k % 5}/{'slow' if k % 4 == 0 else 'rest'}.tar",
        name="my_own_loader",
    )
    for k in range(400)
]


def analysed(batches: Iterable[pa.RecordBatch]) -> Analysis:
    analyser = Analyser()
    for batch in batches:
        analyser.add(batch)
    return analyser.result(format_name="headrace", notes=Notes())


def without_names(value: Any) -> Any:
    """Texts are names, or sentences with names in them; figures are all that is no text.

    Files and hosts that are equal in everything come in the order of their names.
    """
    if isinstance(value, dict):
        return [without_names(one) for one in value.values()]
    if isinstance(value, list | tuple):
        items = [without_names(one) for one in value]
        return sorted(items, key=repr) if items and isinstance(items[0], list) else items
    if isinstance(value, float):
        return float(f"{value:.9g}")  # sums are in the order of names
    return None if isinstance(value, str) else value


@pytest.fixture(scope="module", params=["model", "named"])
def batches(request: pytest.FixtureRequest) -> list[pa.RecordBatch]:
    return [batch_of(NAMED)] if request.param == "named" else list(Synthesis(MODEL).batches())


def test_figures_are_the_same(batches: list[pa.RecordBatch]) -> None:
    anonymiser = Anonymiser(KEY)
    original = analysed(batches)
    other = analysed(map(anonymiser.anonymised, batches))
    assert without_names(msgspec.to_builtins(other)) == without_names(msgspec.to_builtins(original))
    assert [one.cause for one in other.findings] == [one.cause for one in original.findings]
    stragglers = [job.loading.stragglers for job in (*original.jobs, *other.jobs) if job.loading]
    assert stragglers[0] and stragglers[1] and stragglers[0].hosts
    hashed = anonymiser.anonymised(
        batch_of([Event(kind="load", begin_ns=0, host=stragglers[0].slowest_host)])
    )
    assert stragglers[1].slowest_host == hashed["host"][0].as_py()


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real traces in {REAL}")
def test_figures_of_real_traces_are_the_same() -> None:
    for path in (*REAL.glob("*.gz"), REAL / "dlio-unet3d-h100", REAL / "hdfs-audit.log"):
        batches = list(open_trace([path]).batches())
        original = analysed(batches)
        other = analysed(map(Anonymiser(KEY).anonymised, batches))
        assert without_names(msgspec.to_builtins(other)) == without_names(
            msgspec.to_builtins(original)
        )


def test_models_are_the_same_but_for_their_name(batches: list[pa.RecordBatch]) -> None:
    anonymiser = Anonymiser(KEY)
    original = fit_model(lambda: batches).model
    other = fit_model(lambda: map(anonymiser.anonymised, batches)).model
    assert other.name != original.name
    assert msgspec.structs.replace(other, name=original.name) == original
