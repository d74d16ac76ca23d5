"""What the training thread leaves behind at each step: a reference or a number each."""

from __future__ import annotations

from typing import NamedTuple

from headrace.client.counts import Counts


class Moment(NamedTuple):
    """One step, as it was handed over."""

    iteration: int
    """Steps that the loader handed over before."""

    step: int
    wait_s: float
    """How long the loop waited for it [s]."""

    ready_steps: int
    """Steps that lay ready when it was asked for."""

    counts: Counts
