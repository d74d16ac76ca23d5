"""The tiers of storage beside one agent: what they are made of, and which places belong to each."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from headrace.core.errors import ConfigError
from headrace.core.media import Media, TierName

OTHER_TIER: TierName = "hdd"
"""Tier of places that belong to no configured one: reads of it are counted, and may be limited."""

CACHE_TIER: TierName = "ssd"
"""Tier of the agent's own cache where no configured one holds its directory."""

MEMORY_TIER: TierName = "memory"
"""Tier of copies that lie in the agent's memory: nothing limits reading them."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """One tier."""

    name: TierName
    media: Media
    bytes_per_s: float
    """What it can be relied on to give to jobs [B/s]."""

    places: tuple[str, ...] = ()
    """Directories and URLs that lie on it, with all below them; empty: whatever lies on no
    other tier. A link has none: it is what samples leave the agent by."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"tier {self.name!r}: a name has up to 32 letters, digits, '-', '_' and '.'"
            )
        if self.name == MEMORY_TIER:
            raise ConfigError(
                f"tier {self.name}: that is what agents call their own memory; choose another name"
            )
        if self.media not in get_args(Media):
            raise ConfigError(
                f"tier {self.name}: media {self.media!r} is unknown; choose ssd, hdd or link"
            )
        if not 0 < self.bytes_per_s < math.inf:
            raise ConfigError(
                f"tier {self.name}: bytes_per_s={self.bytes_per_s:g} must be more than 0 and "
                "finite; give what the storage can be relied on to read"
            )
        if self.media == "link" and self.places:
            raise ConfigError(f"tier {self.name}: nothing lies on a link; give it no places")


class Tiers:
    """Tells which tier a place belongs to.

    Raises:
        ConfigError: a name or a place is given twice, or two tiers take all other places.
    """

    def __init__(self, tiers: Sequence[Tier]) -> None:
        self.all = tuple(tiers)
        self.links = tuple(tier.name for tier in tiers if tier.media == "link")
        """Tiers that what is sent is counted against."""

        stored = [tier for tier in tiers if tier.media != "link"]
        _require_once("name", [tier.name for tier in tiers])
        self._by_place = [(_clean(place), tier.name) for tier in stored for place in tier.places]
        _require_once("place", [place for place, _ in self._by_place])
        others = [tier.name for tier in stored if not tier.places]
        if len(others) > 1:
            raise ConfigError(
                f"tiers {' and '.join(others)} name no places, and only one can take all that "
                "lies on no other; say what lies on each"
            )
        self._other = others[0] if others else OTHER_TIER

    def of(self, place: str) -> TierName:
        """Return the tier of a directory or URL: that of the longest place it lies in."""
        return self._holding(place) or self._other

    def of_cache(self, directory: str) -> TierName:
        """Return the tier of the agent's own cache."""
        return self._holding(directory) or CACHE_TIER

    def _holding(self, place: str) -> TierName | None:
        wanted = _clean(place)
        holding = [known for known in self._by_place if _is_in(wanted, known[0])]
        return max(holding, key=lambda known: len(known[0]))[1] if holding else None


def _clean(place: str) -> str:
    return place.rstrip("/") if "://" in place else os.path.realpath(place)


def _is_in(place: str, whole: str) -> bool:
    return place == whole or place.startswith(whole.rstrip("/") + "/")


def _require_once(what: str, values: Sequence[str]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(f"two tiers have the {what} {value}; give it to one")
