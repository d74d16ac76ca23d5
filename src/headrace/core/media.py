"""What carries bytes: the media that tiers of storage are made of."""

from __future__ import annotations

from typing import Literal

Media = Literal["ssd", "hdd", "link"]
"""``ssd``: no seeks. ``hdd``: seeks cost, sequence is cheap. ``link``: a network path."""

TierName = str
"""A tier of an estate's storage, such as ``ssd`` or ``hdd``; its media may have the same name."""
