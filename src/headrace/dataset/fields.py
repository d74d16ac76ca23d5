"""Puts a sample's fields together from the parts that were read."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.dataset.location import Member


def by_field(members: Sequence[Member], parts: Sequence[bytes]) -> dict[str, bytes]:
    """Return the bytes of each field, those of several members of one joined in their order."""
    fields: dict[str, list[bytes]] = {}
    for member, part in zip(members, parts, strict=True):
        fields.setdefault(member.field, []).append(part)
    return {
        field: found[0] if len(found) == 1 else b"".join(found) for field, found in fields.items()
    }
