"""Many steps as columns are what each of them alone would be as events."""

from __future__ import annotations

import random

from headrace.client.steprows import COUNTS, StepRow, StepRows
from headrace.trace.events import PARTS, Kind, Phase, arrow_schema


def row(draw: random.Random, **fields: int) -> StepRow:
    drawn = {name: draw.randrange(1, 1 << 40) for name in StepRow._fields}
    return StepRow(**{**drawn, "phase": draw.randrange(3), "is_detailed": 0, **fields})


def test_each_step_has_its_events_and_sums_of_requests_that_were_not_recorded_one_by_one() -> None:
    draw = random.Random(4)
    rows = [
        row(draw, step=0, fetches=0),
        row(draw, step=1, reads=0),
        row(draw, step=2, is_detailed=1),
        row(draw, step=3),
    ]
    batch = StepRows("job", 7).events(rows)
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema())
    found = {(one["step"], one["kind"], one["name"]): one for one in batch.to_pylist()}
    kinds = (Kind.STEP, Kind.WAIT, Kind.LOAD, *PARTS)
    requests = {(0, "read"), (1, "fetch"), (3, "read"), (3, "fetch")}
    assert set(found) == {(step, kind, None) for step in range(4) for kind in kinds} | {
        (step, Kind.REQUEST, name) for step, name in requests
    }
    assert len(found) == batch.num_rows
    for (step, kind, _), event in found.items():
        assert (event["job"], event["rank"]) == ("job", 7)
        assert event["phase"] == tuple(Phase)[rows[step].phase]
        if kind in PARTS:
            told = (event["begin_ns"], event["duration_ns"], event["count"])
            assert told == (rows[step].load_begin, getattr(rows[step], kind), rows[step].samples)
    load, step = found[1, Kind.LOAD, None], found[1, Kind.STEP, None]
    assert dict(load["counts"]) == {name: getattr(rows[1], name) for name in COUNTS}
    assert (load["cpu_ns"], load["bytes"], load["count"]) == (rows[1].cpu, rows[1].nbytes, None)
    assert (step["begin_ns"], step["duration_ns"]) == (rows[1].begin, rows[1].duration)
    assert (step["counts"], step["cpu_ns"]) == (None, None)
    fetch = found[3, Kind.REQUEST, "fetch"]
    assert (fetch["bytes"], fetch["count"]) == (rows[3].bytes_wire, rows[3].fetches)
    assert (fetch["duration_ns"], fetch["is_write"]) == (rows[3].fetch, False)
