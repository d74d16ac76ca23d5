"""Feeds a decoder the packets up to a moment, sparing it the frames that nobody will see.

Frames that no other frame refers to (most B frames) can be left undecoded without changing
any other: a third less work on usual H.264. Which frame is wanted is known from the packets'
times before anything is decoded. Nor are those decoded that precede a sought keyframe on display:
what they refer to was not.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from av.video.frame import VideoFrame

from headrace.transform.codecs.packets import packets_of

_NEVER = -(1 << 62)
_LOOK_AHEAD = 64
"""Packets that are held at once: bounds memory, and one look covers a usual group of pictures."""


class FrameFeed:
    """Frames of one stream in display order, from the last seek on."""

    def __init__(self, container: Any, stream: Any) -> None:
        self._container = container
        self._stream = stream
        self._packets = packets_of(container, stream)
        self._pending: deque[Any] = deque()
        self._ready: deque[VideoFrame] = deque()
        self._target = self._wanted = self._first = _NEVER
        self._is_sought = False

    def seek(self, time: int) -> None:
        """Go on from the last keyframe that the container finds before ``time``."""
        self._container.seek(time, stream=self._stream, backward=True)
        self._packets = packets_of(self._container, self._stream)
        self._pending.clear()
        self._ready.clear()
        self._wanted = self._first = _NEVER
        self._is_sought = True

    def aim(self, target: int) -> None:
        """From now on the frame on display at ``target`` is wanted, and what comes after it."""
        self._target = target
        self._look_ahead()

    def next(self) -> VideoFrame | None:
        """Return the next frame that was not left out; None at the end."""
        while not self._ready:
            if not self._pending:
                self._look_ahead()
            if not self._pending:
                return None
            self._decode(self._pending.popleft())
        return self._ready.popleft()

    def _decode(self, packet: Any) -> None:
        if self._is_sought:
            self._is_sought = False
            self._first = packet.pts if packet.is_keyframe and packet.pts is not None else _NEVER
        if packet.pts is not None and packet.pts < self._first:
            return  # it is displayed before the keyframe, and refers to what lies before that too
        unseen = packet.pts is not None and packet.pts < self._wanted
        self._stream.codec_context.skip_frame = "NONREF" if unseen else "DEFAULT"
        self._ready.extend(packet.decode())

    def _look_ahead(self) -> None:
        """Hold packets up to the target, and note the last one that is displayed by then."""
        while len(self._pending) < _LOOK_AHEAD:
            packet = next(self._packets, None)
            if packet is None:
                break
            self._pending.append(packet)
            if packet.dts is None or packet.dts > self._target:
                break
        for packet in self._pending:
            if packet.pts is not None and packet.pts <= self._target:
                self._wanted = max(self._wanted, packet.pts)
