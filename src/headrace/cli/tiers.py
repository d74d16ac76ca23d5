"""Tiers of storage as people write them: ``hdd:150MB/s:/data`` or ``fast=ssd:2GB/s:/mnt/nvme``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.sizes import ByteSize
from headrace.core.errors import ConfigError

if TYPE_CHECKING:
    from headrace.agent.tiers import Tier

FORM = "[NAME=]MEDIA:RATE[:PLACE,…]"


class TierForm(click.ParamType["Tier"]):
    """A tier: its name (that of its media unless given), media, rate and places."""

    name = "tier"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Tier:
        """Return the tier."""
        from headrace.agent.tiers import Tier

        head, *rest = str(value).split(":", 2)
        if not rest:
            self.fail(f"{value!r} is not of the form {FORM}, such as hdd:150MB/s:/data", param, ctx)
        media = head.rpartition("=")[2]
        rate = ByteSize().convert(rest[0].strip().removesuffix("/s"), param, ctx)
        places = rest[1].split(",") if len(rest) == 2 else []
        try:
            return Tier(
                name=head.rpartition("=")[0] or media,
                media=media,  # type: ignore[arg-type]
                bytes_per_s=float(rate),
                places=tuple(place for place in places if place),
            )
        except ConfigError as error:
            self.fail(str(error), param, ctx)
