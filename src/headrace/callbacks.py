"""Callbacks of trainers: ``HuggingFace`` and ``Lightning`` watch the loss for anomalies.

Where one begins they send a signal, so that the checkpoint concerned is copied first. Each needs
its trainer's package, which is imported only when the callback is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.core.errors import ConfigError

if TYPE_CHECKING:
    from headrace.client.callbacks.huggingface import HuggingFace
    from headrace.client.callbacks.lightning import Lightning

__all__ = ["HuggingFace", "Lightning"]

_HOMES = {
    "HuggingFace": ("headrace.client.callbacks.huggingface", "transformers"),
    "Lightning": ("headrace.client.callbacks.lightning", "lightning"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"headrace.callbacks has no {name!r}; it has {', '.join(__all__)}")
    module, package = _HOMES[name]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ConfigError(f"headrace.callbacks.{name} needs {package}; pip install it") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
