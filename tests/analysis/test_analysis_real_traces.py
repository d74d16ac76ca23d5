"""Figures of real traces agree with what a few lines of Python read from the files.

They are not part of the project. ``HEADRACE_REAL_TRACES`` names their folder, else ``shared``
beside the checkout is looked into; where there is none, these tests say so and are skipped.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.analysis.analyser import Analyser
from headrace.analysis.figures import Analysis, JobFigures
from headrace.trace.opening import open_trace

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "traces"
FOLDER = Path(os.environ.get("HEADRACE_REAL_TRACES", BESIDE))

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no real traces in {FOLDER}")


def analysed(name: str) -> Analysis:
    trace, analyser = open_trace([FOLDER / name]), Analyser()
    for batch in trace.batches():
        analyser.add(batch)
    return analyser.result(format_name=trace.format, notes=trace.notes)


def job_of(name: str) -> JobFigures:
    (job,) = analysed(name).jobs
    return job


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return how long spans are together, where they overlap once."""
    total, reached = 0, -(2**62)
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def test_a_dlio_run_that_dftracer_saw() -> None:
    with tarfile.open(FOLDER / "dftracer-dlio.tar.gz") as archive:
        files = [
            io.TextIOWrapper(archive.extractfile(one)).read().splitlines()
            for one in archive
            if one.isfile()
        ]
    events = [
        [json.loads(line.rstrip(",")) for line in lines if line.startswith("{")] for lines in files
    ]
    job = job_of("dftracer-dlio.tar.gz")
    assert job.ranks == len(files) == 8
    told = [one for lines in events for one in lines if one["ph"] == "X"]
    waits = [one["dur"] / 1e6 for one in told if one["name"] == "loop.iter"]
    waits += [wait for lines in events for wait in _last_waits(lines)]
    assert job.wait_s is not None and job.wait_s.count == len(waits)
    assert job.wait_s.total == pytest.approx(sum(waits))
    assert job.wait_s.p99 == pytest.approx(np.quantile(waits, 0.99))
    reads = [one for one in told if one["name"] == "pread"]
    assert job.requests is not None and job.requests.read_bytes is not None
    assert job.requests.read_bytes.count == len(reads)
    assert job.requests.read_bytes.total == sum(int(one["args"]["ret"]) for one in reads)
    opens = Counter(one["name"] for one in told)
    assert job.requests.operations["open"] == opens["open"]
    items = [one["dur"] / 1e6 for one in told if one["name"] == "TorchDataset.__getitem__"]
    assert job.loading is not None and job.loading.unit == "sample"
    assert job.loading.latency_s.mean == pytest.approx(np.mean(items))
    assert job.accelerators is not None and job.accelerators.compute_s is not None
    computed = sum(
        covered((one["ts"], one["ts"] + one["dur"]) for one in lines if _computes(one))
        for lines in events
    )
    assert job.accelerators.compute_s == pytest.approx(computed / 1e6)


def _last_waits(lines: list[dict[str, Any]]) -> Iterator[float]:
    """Yield the waits of epochs' last steps, of which DLIO tells the work alone."""
    ended = None
    for one in sorted(lines, key=lambda one: one.get("ts", 0)):
        if one["name"] == "loop.yield":
            ended = one["ts"] + one["dur"]
        elif one["name"] == "loop.iter":
            ended = None
        elif ended is not None and _computes(one) and one["ts"] >= ended:
            yield (one["ts"] - ended) / 1e6
            ended = None


def _computes(event: dict[str, Any]) -> bool:
    return event["ph"] == "X" and event["name"] == "TorchFramework.compute"


def test_a_training_that_the_profiler_of_torch_saw() -> None:
    path = FOLDER / "kineto-resnet50-workers0.pt.trace.json.gz"
    with gzip.open(path) as file:
        events = [one for one in json.load(file)["traceEvents"] if one["ph"] == "X"]
    job = job_of(path.name)
    waits = [one for one in events if one["name"].startswith("enumerate(DataLoader)#")]
    assert job.wait_s is not None and job.wait_s.count == len(waits)
    assert job.wait_s.total == pytest.approx(sum(one["dur"] for one in waits) / 1e6)
    waited, computed = (
        [(one["ts"], one["ts"] + one["dur"]) for one in chosen]
        for chosen in (
            waits,
            [one for one in events if one["cat"] in ("Kernel", "Memcpy", "Memset")],
        )
    )
    idle = covered(waited + computed) - covered(computed)
    assert job.accelerators is not None
    assert job.accelerators.idle_s == pytest.approx(idle / 1e6)
    assert job.accelerators.compute_s == pytest.approx(covered(computed) / 1e6)


def test_a_result_of_mlperf_storage_has_the_utilisation_that_it_states() -> None:
    stated = json.loads((FOLDER / "dlio-unet3d-h100" / "summary.json").read_text())["metric"]
    found = analysed("dlio-unet3d-h100")
    (job,) = found.jobs
    assert found.is_partial and "15 ranks" in found.problems[0]
    assert job.accelerators is not None and job.accelerators.compute_s is not None
    used = job.accelerators.compute_s / (job.accelerators.ranks * job.accelerators.span_s)
    assert 100 * used == pytest.approx(stated["train_au_mean_percentage"], abs=1.5)


def test_an_audit_log_tells_what_was_asked() -> None:
    lines = (FOLDER / "hdfs-audit.log").read_text().splitlines()
    asked = Counter(line.split("cmd=")[1].split()[0] for line in lines if "cmd=" in line)
    requests = job_of("hdfs-audit.log").requests
    assert requests is not None and requests.operations == asked


def test_an_older_dialect_of_dftracer() -> None:
    with gzip.open(FOLDER / "dftracer-old-dialect.pfw.gz", "rt") as file:
        told = [json.loads(line.rstrip().rstrip(",")) for line in file if '"name"' in line]
    requests = job_of("dftracer-old-dialect.pfw.gz").requests
    assert requests is not None and requests.read_bytes is not None
    reads = [int(one["args"]["ret"]) for one in told if one["name"] == "read"]
    assert (requests.read_bytes.count, requests.read_bytes.total) == (len(reads), sum(reads))
