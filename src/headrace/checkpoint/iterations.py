"""Megatron-LM's folders of iterations, whatever lies in them, and the pointer beside them."""

from __future__ import annotations

import re

from headrace.checkpoint.layout import Folder, Pointer
from headrace.checkpoint.pointers import pointer_beside

POINTER = "latest_checkpointed_iteration.txt"

RELEASE = "release"
"""Name of the folder of a model that is no iteration, and what the pointer holds for it."""

_FOLDER = re.compile(rf"(?:^|/)(?:iter_(\d{{7,18}})|{RELEASE})$")


def iteration_pointer(folder: Folder) -> Pointer | None:
    """Return what is to point to a folder once it is complete; None: it is not Megatron's."""
    place = _FOLDER.search(folder.path)
    if place is None:
        return None
    iteration = place.group(1)
    return pointer_beside(folder, POINTER, str(int(iteration)) if iteration else RELEASE)


def folder_called(pointed: str) -> str:
    """Return the name of the folder to which the pointer leads that holds this."""
    return f"iter_{int(pointed):07}" if pointed.isdecimal() else pointed
