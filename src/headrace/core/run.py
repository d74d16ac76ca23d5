"""What tells one run of a job from others: as its launcher says, equal on all ranks."""

from __future__ import annotations

from collections.abc import Mapping

RUN_VARIABLES = ("HEADRACE_RUN", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
"""Environment variables that name a run; the first that is set counts."""

_NO_RUN = ("", "none")
"""Values that name none: torchrun says ``none`` unless it is given ``--rdzv-id``."""


def named_run(environment: Mapping[str, str]) -> str:
    """Return the name that a process's environment gives its run; empty: it gives none."""
    said = (environment.get(name, "") for name in RUN_VARIABLES)
    return next((name for name in said if name not in _NO_RUN), "")
