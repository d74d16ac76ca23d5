"""Tiers of storage as people write them: ``hdd=150MB/s:/data``, ``fast:ssd=2GB/s:/mnt/nvme``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.sizes import ByteSize
from headrace.core.errors import ConfigError

if TYPE_CHECKING:
    from headrace.agent.tiers import Tier

FORM = "NAME[:MEDIA]=RATE[:PLACE,…]"


class TierForm(click.ParamType["Tier"]):
    """A tier: its name, its media (called as the tier is unless given), rate and places."""

    name = "tier"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Tier:
        """Return the tier."""
        from headrace.agent.tiers import Tier

        head, given, tail = str(value).partition("=")
        if not given:
            self.fail(f"{value!r} is not of the form {FORM}, such as hdd=150MB/s:/data", param, ctx)
        name, _, media = head.partition(":")
        rate, _, places = tail.partition(":")
        try:
            return Tier(
                name=name,
                media=media or name,  # type: ignore[arg-type]
                bytes_per_s=float(ByteSize().convert(rate.removesuffix("/s"), param, ctx)),
                places=tuple(place for place in places.split(",") if place),
            )
        except ConfigError as error:
            self.fail(str(error), param, ctx)
