"""Which agents keep a hot range in memory, and whom each reader asks: the same answer everywhere.

Both are rendezvous hashing: for a key each name has a score that nothing else decides, and the
highest ones win. One more copy adds one holder, a name that comes or goes moves only what it
holds, and readers need not agree on anything but the names.

Source: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates",
IEEE/ACM Transactions on Networking 6(1), 1998.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from headrace.core.errors import CallerError
from headrace.core.mixing import Words, key_words, mix64


def holders(key: str, names: Sequence[str], copies: int) -> tuple[int, ...]:
    """Return the positions in ``names`` of those that keep a range, the first choice first.

    The first of them are the holders for fewer copies. Where a name comes or goes, only the
    keys that it holds get another holder. The order of the names decides nothing.

    Args:
        key: Names the range.
        names: Of the agents, each once.
        copies: How many should keep it, at least 1; all, where there are fewer.

    Raises:
        CallerError: ``copies`` is below 1, or there are no names.
    """
    if copies < 1 or not names:
        raise CallerError(f"{copies} copies on {len(names)} agents: both must be at least 1")
    return _ranked(key, names)[:copies]


def choose(key: str, reader: str, names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions in ``names`` of a range's holders in the order to ask them.

    For many readers, or many keys, each holder comes first, second … equally often, so that
    the readers of one that failed are spread over all the others.

    Args:
        key: Names the range.
        reader: Who asks, such as a rank's or a host's name.
        names: Of the holders, each once.
    """
    return _ranked(f"{len(reader)} {reader} {key}", names)


def _ranked(key: str, names: Sequence[str]) -> tuple[int, ...]:
    own = key_words(1, b"spread", key.encode("utf-8", "surrogatepass"))
    scores = mix64(_words(tuple(names)) ^ own)
    best = np.argsort(scores, kind="stable")[::-1]
    return tuple(best.tolist())


@lru_cache(maxsize=64)
def _words(names: tuple[str, ...]) -> Words:
    """Return a word for each name ``[N]``."""
    return np.concatenate([key_words(1, name.encode("utf-8", "surrogatepass")) for name in names])
