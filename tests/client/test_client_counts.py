"""What an epoch's summary tells people."""

from __future__ import annotations

from headrace.client.batch import Replaced
from headrace.client.counts import Counts, EpochSummary


def summary(**counts: float) -> list[str]:
    made = Counts()
    for name, value in counts.items():
        setattr(made, name, value)
    epoch = EpochSummary(epoch=0, steps=3, counts=made, wait_s=9.5, replaced=())
    return str(epoch).splitlines()


def test_a_wait_for_the_quota_is_told_beside_the_loops_own() -> None:
    first, second, *_ = summary(throttled_s=178.2)
    assert first.endswith("waited 9.50 s")
    assert second.startswith("  reads waited 178.20 s for the job's quota")
    assert not any("quota" in line for line in summary(throttled_s=0.01))
    assert len(summary(throttled_s=178.2, beside=4)) == 5


def test_names_and_reasons_cannot_drive_the_terminal_nor_begin_a_line() -> None:
    odd = Replaced(step=0, sample=1, key="a\n\x1b[31m.jpg", taken=None, reason="what\r\x1b[2J")
    epoch = EpochSummary(epoch=0, steps=1, counts=Counts(), wait_s=0.0, replaced=(odd,))
    assert str(epoch).splitlines()[-1] == "  a\ufffd\ufffd[31m.jpg: what\ufffd\ufffd[2J"
