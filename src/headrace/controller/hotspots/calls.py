"""What can be asked of the controller about files that are about to turn hot."""

from __future__ import annotations

from headrace.controller.call import Asked, Call
from headrace.wire.hotspots import HotspotAsked, HotspotRenewed, Hotspots, HotspotView

MOST_ASKED_BYTES = 1 << 20
"""Longest announcement: it may name files [bytes]."""


def _announce(asked: Asked) -> HotspotView:
    message: HotspotAsked = asked.message
    if asked.query.get("dry_run") == "true":
        return asked.parts.hotspots.plan(message)
    return asked.parts.hotspots.announce(message)


def _renew(asked: Asked) -> HotspotView:
    message: HotspotRenewed = asked.message
    return asked.parts.hotspots.renew(asked.names["id"], message.lease_s)


HOTSPOT_CALLS: tuple[Call, ...] = (
    Call(
        method="GET",
        path="/v1/hotspots",
        summary="List announcements that hold copies, or are about to, newest first.",
        act=lambda asked: asked.parts.hotspots.views(),
        answers=Hotspots,
    ),
    Call(
        method="POST",
        path="/v1/hotspots",
        summary="Announce that many ranks are about to read a checkpoint; a dry run only plans.",
        act=_announce,
        answers=HotspotView,
        takes=HotspotAsked,
        most_bytes=MOST_ASKED_BYTES,
        waits=True,
        queries={"dry_run": ("true", "false")},
    ),
    Call(
        method="GET",
        path="/v1/hotspots/{id}",
        summary="Show one announcement: how many copies live, and when all will.",
        act=lambda asked: asked.parts.hotspots.view(asked.names["id"]),
        answers=HotspotView,
    ),
    Call(
        method="PUT",
        path="/v1/hotspots/{id}",
        summary="Renew the lease of an announcement.",
        act=_renew,
        answers=HotspotView,
        takes=HotspotRenewed,
        most_bytes=MOST_ASKED_BYTES,
        waits=True,
    ),
    Call(
        method="DELETE",
        path="/v1/hotspots/{id}",
        summary="Release an announcement: its copies are given back.",
        act=lambda asked: asked.parts.hotspots.release(asked.names["id"]),
        answers=HotspotView,
        waits=True,
    ),
)
