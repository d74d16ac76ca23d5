"""What is advised, of measurements that leave no doubt."""

from __future__ import annotations

import pytest

from headrace import Pipeline, ops
from headrace.assess.measuring import Measured, Measurement
from headrace.assess.outlook import Outlook, Settings, outlook
from headrace.core.errors import ConfigError, CorruptDataError
from headrace.transform.explain import TimedRun
from headrace.transform.program import Program
from headrace.transform.split import KindProfile

PROGRAM = Program(Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(224), ops.ToFloat()]))
PHOTOS = KindProfile(kind="image", nbytes=100e3, width=640, height=480, samples=1000)


def measured(decode_s: float = 0.01, *, read_s: float = 1e-4, heavy: float = 0.0) -> Measurement:
    def sample(number: int) -> Measured:
        cpu_s = heavy if heavy and number % 50 == 7 else decode_s
        return Measured(
            key=f"{number:03d}.jpg",
            kind="image",
            row=number,
            stored_bytes=100_000,
            read_s=read_s,
            run=TimedRun(cpu_s=(cpu_s, 0.0, 2e-4), nbytes=(100e3, 150e3, 150e3, 602e3)),
        )

    return Measurement(samples=[sample(number) for number in range(100)])


def assessed(measurement: Measurement, **settings: object) -> Outlook:
    given = {"batch_size": 32, "step_s": 0.1, "trainer_cpus": 2, "agents": 2, "agent_cpus": 4}
    return outlook(PROGRAM, [PHOTOS], measurement, Settings(**{**given, **settings}))  # type: ignore[arg-type]


def test_a_trainer_with_too_few_cpus_is_helped_by_agents() -> None:
    found = assessed(measured())
    assert found.advice == "offload"
    assert found.verdict.startswith("Storage-side transforms would help: ")
    assert min(one.stall.share for one in found.local) > 0.3
    assert found.offload.stall.share < 0.01
    assert found.needs.local_cpus == pytest.approx(3.26, rel=0.01)
    assert found.needs.storage_cpus == pytest.approx(3.2, rel=0.01)
    assert found.needs.network_bytes_per_s == pytest.approx(320 * 150e3)


def test_workers_are_advised_before_agents_also_where_more_of_them_than_asked_would_do() -> None:
    found = assessed(measured(0.005), workers=(0, 1))
    assert (found.advice, found.local[-1].name) == ("workers", "2 local workers")


def test_ops_that_only_make_bytes_larger_stay_on_the_trainer() -> None:
    (kind,) = assessed(measured()).kinds
    assert [op.on_storage for op in kind.ops] == [True, True, False]
    assert (kind.cut, kind.next_cut, kind.wire_bytes) == (2, 0, 150e3)
    assert kind.next_price > 2


@pytest.mark.parametrize(
    ("measurement", "settings", "advice", "says"),
    [
        (measured(1e-5, read_s=1e-5), {"step_s": 5.0}, "nothing", "makes its batches itself"),
        (measured(), {"trainer_cpus": 16}, "workers", "with 4 local workers"),
        (measured(1e-4, read_s=0.5), {}, "storage", "Faster storage"),
        (measured(), {"bandwidth": 1e6}, "network", "too thin"),
        (measured(0.1), {"agents": 1, "agent_cpus": 2}, "cpus", "More CPUs"),
    ],
)
def test_what_binds_is_named(
    measurement: Measurement, settings: dict[str, object], advice: str, says: str
) -> None:
    found = assessed(measurement, **settings)
    assert found.advice == advice
    assert says in found.verdict


def test_heavy_samples_are_named_with_what_they_take() -> None:
    found = assessed(measured(heavy=0.5))
    first = found.heaviest[0]
    assert (first.key, first.cpu_s) == ("007.jpg", pytest.approx(0.5, rel=0.01))
    assert first.times_mean > 10


def test_a_dataset_of_which_nothing_can_be_used_is_refused() -> None:
    with pytest.raises(CorruptDataError, match=r"the first: a\.jpg: truncated"):
        assessed(Measurement(unusable=["a.jpg: truncated"], unusable_count=1))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Settings(batch_size=1, step_s=1, agents=0)
