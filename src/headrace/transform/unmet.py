"""Finds fields that ops name and no sample can have, such as misspelt ones: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.core.numbered import shared_name
from headrace.transform.op import Op

_USUAL = frozenset({"image", "video", "audio", "text", "label", "json", "tokens", "documents"})
"""Fields that one pipeline may name for several datasets, whatever each of them has."""


def unmet_fields(ops: Sequence[Op], present: Iterable[str]) -> list[tuple[Op, str]]:
    """Return each op that names a field which neither samples have nor ops before it make.

    Fields that records have by convention are left out: one pipeline serves datasets of pictures,
    clips, sound and text, and skips what a sample does not have.

    Args:
        ops: A pipeline's.
        present: The fields of all samples.
    """
    known = {name for field in present for name in (field, shared_name(field))} | _USUAL
    unmet = []
    for op in ops:
        unmet += [(op, field) for field in op.fields if field not in known]
        known.update(op.result_of(field) for field in op.fields if field in known)
    return unmet
