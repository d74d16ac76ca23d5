"""The file that says that a checkpoint's files are just being moved into its folder.

Without it some layouts would take a part for a whole: safetensors files have no marker, and a
model whose other files are still to come looks like plain safetensors. It is the first that is
there and the last that goes, and a checkpoint in a folder that has it is not complete.
"""

from __future__ import annotations

from headrace.storage.paths import join

ARRIVING = ".headrace-arriving"
"""Its name, in the checkpoint's folder."""


def arriving_path(folder: str) -> str:
    """Return where it lies for the checkpoint in ``folder``, relative to the root."""
    return join(folder, ARRIVING)
