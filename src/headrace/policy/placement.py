"""Which agent prepares which sample: rendezvous hashing, the same answer everywhere.

Nobody keeps a table. Each agent's name gives each sample a score, the highest score owns
it; so when an agent leaves only its own samples move, evenly, to the others.

Source: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates",
IEEE/ACM Transactions on Networking 6(1), 1998.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.core.mixing import Words, key_words, mix64


def owners(samples: npt.NDArray[np.int64], roster: Sequence[str]) -> npt.NDArray[np.intp]:
    """Return the index in ``roster`` of the agent that owns each sample.

    The owner depends on the set of names only, not on their order.

    Args:
        samples: Global sample ids, ``int64 [N]``.
        roster: Names of the agents, all different.

    Raises:
        ConfigError: ``roster`` is empty or has a name twice.
    """
    mixed = mix64(np.asarray(samples, np.int64).view(np.uint64))
    best = np.zeros(mixed.size, dtype=np.uint64)
    owner = np.zeros(mixed.size, dtype=np.intp)
    for index, key in enumerate(_keys(tuple(roster))):
        score = mix64(mixed ^ key)
        better = score > best
        best[better], owner[better] = score[better], index
    return owner


def preference(sample: int, roster: Sequence[str]) -> tuple[int, ...]:
    """Return all indexes in ``roster``: the sample's owner, then who steps in for it, in order.

    Raises:
        ConfigError: ``roster`` is empty or has a name twice.
    """
    mixed = mix64(np.array([sample], np.int64).view(np.uint64))
    scores = [int(mix64(mixed ^ key)[0]) for key in _keys(tuple(roster))]
    return tuple(sorted(range(len(scores)), key=scores.__getitem__, reverse=True))


@lru_cache(maxsize=64)
def _keys(roster: tuple[str, ...]) -> tuple[Words, ...]:
    if not roster or len(set(roster)) < len(roster):
        raise ConfigError(
            f"the agents {list(roster)} cannot share samples: there must be at least one, and each "
            "needs a name of its own; start agents with different --name"
        )
    return tuple(key_words(1, b"placement", name.encode()) for name in roster)
