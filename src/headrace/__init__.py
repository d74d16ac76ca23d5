"""headrace keeps the accelerators of a pre-training job fed.

Everything public is loaded when it is first used, so ``import headrace`` takes milliseconds
and never imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace import ops
    from headrace.checkpoint.pinning import pin
    from headrace.client.announcing import Announcement, announce
    from headrace.client.batch import Batch, Replaced
    from headrace.client.config import LoaderConfig
    from headrace.client.counts import EpochSummary
    from headrace.client.loader import Loader
    from headrace.client.signals import signal
    from headrace.core import errors
    from headrace.policy.loss import LossLimits, LossMonitor
    from headrace.transform.pipeline import Pipeline

__all__ = [
    "Announcement",
    "Batch",
    "EpochSummary",
    "Loader",
    "LoaderConfig",
    "LossLimits",
    "LossMonitor",
    "Pipeline",
    "Replaced",
    "__version__",
    "announce",
    "errors",
    "ops",
    "pin",
    "signal",
]

__version__ = "0.1.0"

_HOMES = {
    "Announcement": "headrace.client.announcing",
    "Batch": "headrace.client.batch",
    "EpochSummary": "headrace.client.counts",
    "Loader": "headrace.client.loader",
    "LoaderConfig": "headrace.client.config",
    "LossLimits": "headrace.policy.loss",
    "LossMonitor": "headrace.policy.loss",
    "Pipeline": "headrace.transform.pipeline",
    "Replaced": "headrace.client.batch",
    "pin": "headrace.checkpoint.pinning",
    "announce": "headrace.client.announcing",
    "signal": "headrace.client.signals",
}
_MODULES = {
    "callbacks": "headrace.callbacks",
    "errors": "headrace.core.errors",
    "ops": "headrace.ops",
    "safetensors": "headrace.safetensors",
    "torch": "headrace.torch",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"headrace has no {name!r}; it has {', '.join(sorted(__all__))}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
