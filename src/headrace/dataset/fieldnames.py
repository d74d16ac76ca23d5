"""Fields of columns and features that are none of those which a record has by convention."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from headrace.dataset.media import KINDS

RESERVED = frozenset({*KINDS, "label", "json", "record", "sample"})
"""Fields that mean something: what is only called so is not put into them."""

_NUMBERED = re.compile(r"\.\d+$")


def own_fields(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return a field for each name, no two the same.

    It is the name itself, with underscores behind it where that is reserved or taken, or looks
    like one of several values (``image.0``).
    """
    known = dict.fromkeys(names)
    fields: dict[str, str] = {}
    used = {*taken, *RESERVED}
    for name in known:
        field = name
        while field in used or _NUMBERED.search(field) or (field != name and field in known):
            field += "_"
        used.add(field)
        fields[name] = field
    return fields
