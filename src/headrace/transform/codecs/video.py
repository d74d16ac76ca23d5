"""Decodes the wanted frames of one clip with PyAV, and as few others as the format allows.

A frame is asked for by time: the one on display at that moment. Its keyframe is sought
and only frames from there on are decoded, on one thread and without those that nothing refers
to, so the same moments give the same bytes on every host with the same FFmpeg. PyAV leaves
FFmpeg's log switched off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from typing import Any, BinaryIO, cast

import av
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation
from PIL import Image

from headrace.core.errors import CorruptSampleError
from headrace.core.formats import MEDIA_FORMATS
from headrace.transform.codecs.feed import FrameFeed
from headrace.transform.codecs.orientation import Orientation, display_turn, turned_size
from headrace.transform.corrupt import untrusted_bytes
from headrace.transform.op import Frame
from headrace.transform.pictures import Bytes3
from headrace.transform.window import Window

Source = bytes | BinaryIO
Moments = Callable[[float], Sequence[float]]
"""Clip's duration [s] → moments from its start [s], ascending."""

_BLIND_GAP_S = 2.0
"""Without an index of keyframes, a gap up to this is decoded through rather than sought over."""

_RGB = "rgb24"
_TO_RGB = Interpolation.BILINEAR
"""swscale's fast way from YUV to RGB; its bit-exact way takes eight times as long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipRules:
    """Which stream is read, and the limits of a hostile clip."""

    stream: int
    """Number among the video streams; cover pictures do not count."""

    orientation: Orientation
    max_pixels: int
    """Larger frames count as corrupt [px]."""

    max_decoded: int
    """Most frames that one clip may make the decoder decode."""


def decode_clip(
    source: Source, rules: ClipRules, moments: Moments, frame: Frame | None
) -> tuple[Image.Image, ...]:
    """Return the RGB frames on display at the moments, cut and resized if ``frame`` is given.

    Moments past the last frame show the last frame.

    Raises:
        CorruptSampleError: not a clip, truncated before a wanted frame, or above a limit.
    """
    handle = BytesIO(source) if isinstance(source, bytes) else source
    handle.seek(0)
    options = {"format_whitelist": MEDIA_FORMATS}
    with (
        untrusted_bytes("clip"),
        av.open(handle, mode="r", metadata_errors="ignore", options=options) as container,
    ):
        reader = _ClipReader(container, rules)
        painter = _Painter(rules, frame)
        return tuple(
            painter.paint(reader.frame_at(moment)) for moment in moments(reader.duration_s)
        )


@dataclass(frozen=True, slots=True)
class _Timed:
    """A decoded frame and when it is displayed, in the stream's time base."""

    time: int
    frame: VideoFrame


class _ClipReader:
    """Walks forward through one stream, seeking where that spares decoding."""

    def __init__(self, container: Any, rules: ClipRules) -> None:
        self._container = container
        self._rules = rules
        self._stream = _video_stream(container, rules)
        self._base: Fraction = self._stream.time_base
        self._start: int = self._stream.start_time or 0
        self._times, self._keyframes = _index_of(self._stream, self._start)
        self._decoded = 0
        self._feed = FrameFeed(container, self._stream)
        self._shown: _Timed | None = None
        self._next: _Timed | None = None
        self._opened = False

    @property
    def duration_s(self) -> float:
        """Return the clip's length by its header, or by its packets if the header is silent [s]."""
        if self._stream.duration:
            return float(self._stream.duration * self._base)
        if self._container.duration:
            return float(self._container.duration / av.time_base)
        return self._scanned_duration()

    def frame_at(self, moment_s: float) -> VideoFrame:
        """Return the frame on display; moments must not go back."""
        target = self._start + int(moment_s / self._base)
        if self._worth_seeking(target):
            self._seek(target)
        self._feed.aim(target)
        self._open()
        while self._next is not None and self._next.time <= target:
            self._shown = self._next
            self._next = self._advance()
        if self._next is None:
            self._check_end()
        shown = self._shown or self._next
        if shown is None:
            raise CorruptSampleError("the clip has no frame that decodes; leave it out")
        return shown.frame

    def _open(self) -> None:
        if not self._opened:
            self._opened = True
            self._next = self._advance()

    def _worth_seeking(self, target: int) -> bool:
        position = self._next.time if self._next is not None else self._start
        if self._opened and self._next is None:
            return False
        if len(self._keyframes) > 1:
            return self._keyframe_before(target) > position
        return (target - position) * self._base > _BLIND_GAP_S

    def _keyframe_before(self, target: int) -> int:
        return self._keyframes[max(0, bisect_right(self._keyframes, target) - 1)]

    def _seek(self, target: int) -> None:
        """Go to the last keyframe that is displayed no later than ``target``.

        Some containers seek by decoding time, which may be earlier than display time: if
        the frame found is too late, the keyframe before it is tried, then the start.
        """
        earlier = self._keyframes[: bisect_right(self._keyframes, target)][-2:-1]
        for place in (target, *earlier, self._start):
            self._feed.seek(place)
            self._feed.aim(target)
            self._shown, self._opened = None, True
            self._next = self._advance()
            if self._next is not None and self._next.time <= target:
                return

    def _advance(self) -> _Timed | None:
        frame = self._feed.next()
        if frame is None:
            return None
        self._decoded += 1
        if self._decoded > self._rules.max_decoded:
            raise CorruptSampleError(
                f"more than max_decoded={self._rules.max_decoded} frames must be decoded to reach "
                "the wanted ones; raise max_decoded in decode_video, or re-encode with keyframes"
            )
        if frame.pts is None:
            raise CorruptSampleError("the clip's frames carry no time; wrap the stream in MP4")
        return _Timed(frame.pts, frame)

    def _check_end(self) -> None:
        """Raise if the index promises frames behind the last one that could be decoded."""
        if self._times and self._shown is not None and self._times[-1] > self._shown.time:
            raise CorruptSampleError(
                f"the clip ends after {float((self._shown.time - self._start) * self._base):.2f} s "
                f"of {self.duration_s:.2f} s: it was cut off; replace the file"
            )

    def _scanned_duration(self) -> float:
        ends = [
            packet.pts + (packet.duration or 0)
            for packet in self._container.demux(self._stream)
            if packet.pts is not None
        ]
        self._container.seek(self._start, stream=self._stream, backward=True)
        return float((max(ends, default=self._start) - self._start) * self._base)


class _Painter:
    """Turns decoder frames into pictures, all through one window."""

    def __init__(self, rules: ClipRules, frame: Frame | None) -> None:
        self._rules = rules
        self._frame = frame
        self._size: tuple[int, int] | None = None
        self._turn: Image.Transpose | None = None
        self._window: Window | None = None
        self._last: tuple[VideoFrame, Image.Image] | None = None

    def paint(self, frame: VideoFrame) -> Image.Image:
        """Return the frame as a picture; the same frame again is the same picture."""
        if self._last is not None and self._last[0] is frame:
            return self._last[1]
        if self._size is None:
            self._begin(frame)
        if (frame.width, frame.height) != self._size or frame.is_corrupt:
            raise CorruptSampleError(
                f"the frame at {frame.time:.2f} s is damaged or of another size; replace the file"
            )
        pixels = frame.to_ndarray(format=_RGB, interpolation=_TO_RGB, threads=1)
        image = self._framed(cast(Bytes3, pixels))
        self._last = (frame, image)
        return image

    def _begin(self, frame: VideoFrame) -> None:
        self._size = (frame.width, frame.height)
        if self._rules.orientation == "apply":
            self._turn = display_turn(frame.rotation)
        if self._frame is not None:
            self._window = self._frame.window(*turned_size(self._size, self._turn))

    def _framed(self, pixels: Bytes3) -> Image.Image:
        if self._turn is not None:
            image = Image.fromarray(pixels).transpose(self._turn)
            return self._window.apply(image) if self._window else image
        if self._window is None:
            return Image.fromarray(pixels)
        return self._window.apply_to_array(pixels)


def _video_stream(container: Any, rules: ClipRules) -> Any:
    streams = [
        stream
        for stream in container.streams.video
        if not stream.disposition & Disposition.attached_pic
    ]
    if rules.stream >= len(streams):
        raise CorruptSampleError(
            f"video stream {rules.stream} was asked for, the file has {len(streams)}; "
            "check decode_video.stream, or leave the file out"
        )
    stream = streams[rules.stream]
    context = stream.codec_context
    if context.width * context.height > rules.max_pixels:
        raise CorruptSampleError(
            f"frames of {context.width} x {context.height} px exceed max_pixels="
            f"{rules.max_pixels}; raise max_pixels in decode_video, or leave the file out"
        )
    context.thread_type = "NONE"
    context.thread_count = 1
    return stream


def _index_of(stream: Any, start: int) -> tuple[list[int], list[int]]:
    """Return the decoding times of all packets, and the display times of keyframes.

    Containers list decoding times; display lags behind by what reordering needs at the start.
    """
    entries = [entry for entry in stream.index_entries if not entry.is_discard]
    times = sorted(entry.timestamp for entry in entries)
    lag = start - times[0] if times else 0
    return times, sorted(entry.timestamp + lag for entry in entries if entry.is_keyframe)
