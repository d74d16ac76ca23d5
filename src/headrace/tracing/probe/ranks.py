"""Watches what ranks do together: who is which, and how long each waits for the others."""

from __future__ import annotations

import functools
from typing import Any

from .tracer import Call, Tracer, Watcher

_BARRIERS = ("barrier", "monitored_barrier")
_BLOCKING = ("all_reduce",)
"""Wait for the other ranks where tensors are in the host's memory; on a device, they go on."""


class Ranks:
    """Watches torch's process groups in one process."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watcher = Watcher("waits for other ranks")

    def watch(self, module: Any) -> None:
        """Watch barriers, and the making of the process group."""
        make = module.init_process_group
        note = functools.partial(self._note_rank, module)
        module.init_process_group = self._watcher.timed(make, note)
        for name in (*_BARRIERS, *_BLOCKING):
            watched = self._watcher.timed(
                getattr(module, name), functools.partial(self._note_wait, name)
            )
            setattr(module, name, watched)

    def _note_rank(self, module: Any, _: Call) -> None:
        self._tracer.standing.rank = module.get_rank()
        self._tracer.publish()

    def _note_wait(self, name: str, call: Call) -> None:
        is_asynchronous = call.result is not None
        is_on_device = name in _BLOCKING and call.argument("tensor", 0).device.type != "cpu"
        if not is_asynchronous and not is_on_device:
            self._tracer.record("barrier", call.began, call.took, name=name)
