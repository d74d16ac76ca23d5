"""Decodes the wanted frames of one clip with PyAV, and as few others as the format allows.

A frame is asked for by time: the one on display at that moment. Its keyframe is sought
and only frames from there on are decoded, on one thread and without those that nothing refers
to, so the same moments give the same bytes on every host with the same FFmpeg. PyAV leaves
FFmpeg's log switched off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from io import BytesIO
from itertools import accumulate, groupby
from typing import Any, BinaryIO, cast

import av
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation
from PIL import Image

from headrace.core.errors import CorruptSampleError
from headrace.core.formats import MEDIA_FORMATS
from headrace.core.movtables import require_credible_tables
from headrace.core.parts import WHOLE, SamplePart
from headrace.transform.codecs.feed import FrameFeed
from headrace.transform.codecs.orientation import Orientation, display_turn, turned_size
from headrace.transform.codecs.packets import packets_of
from headrace.transform.corrupt import untrusted_bytes
from headrace.transform.op import Frame
from headrace.transform.pictures import Bytes3
from headrace.transform.window import Window

Source = bytes | BinaryIO
Moments = Callable[[float], Sequence[float]]
"""Clip's duration [s] → moments from its start [s], ascending."""

_BLIND_GAP_S = 2.0
"""Without an index of keyframes, a gap up to this is decoded through rather than sought over."""

_ALIGNMENT_PIXELS = 1 << 23
"""What codecs may add to the sides of a frame for their blocks: 64 to one of 65,536, and more
[px]."""

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

    def of(self, part: SamplePart) -> ClipRules:
        """Return the rules of a part: no part decodes so much that all could exceed the limit."""
        return replace(self, max_decoded=self.max_decoded // part.count)


def decode_clip(
    source: Source,
    rules: ClipRules,
    moments: Moments,
    frame: Frame | None,
    part: SamplePart = WHOLE,
) -> tuple[Image.Image, ...]:
    """Return the RGB frames on display at the moments, cut and resized if ``frame`` is given.

    Moments past the last frame show the last frame. Of a part these are the frames of its own
    moments: together, in the order of the parts, they are those of the whole.

    Raises:
        CorruptSampleError: not a clip, truncated before a wanted frame, or above a limit; of a
            part also where it cannot be told from the part alone that the whole has none of this.
    """
    handle = BytesIO(source) if isinstance(source, bytes) else source
    require_credible_tables(handle)
    options = {"format_whitelist": MEDIA_FORMATS}
    with (
        untrusted_bytes("clip"),
        av.open(handle, mode="r", metadata_errors="ignore", options=options) as container,
    ):
        reader = _ClipReader(container, rules.of(part))
        painter = _Painter(rules, frame)
        wanted = moments(reader.duration_s)
        if not part.is_whole:
            reader.be_strict()
            painter.expect(reader.form())
            wanted = wanted[reader.moments_of(part, wanted)]
        return tuple(painter.paint(reader.frame_at(moment)) for moment in wanted)


@dataclass(frozen=True, slots=True)
class _Form:
    """What all frames that are taken of a clip have in common."""

    size: tuple[int, int]
    turn: Image.Transpose | None


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
        self._group = 0

    @property
    def duration_s(self) -> float:
        """Return the clip's length by its header, or by its packets if the header is silent [s]."""
        if self._stream.duration:
            return float(self._stream.duration * self._base)
        if self._container.duration:
            return float(self._container.duration / av.time_base)
        return self._scanned_duration()

    def be_strict(self) -> None:
        """Let nothing pass that the decoder finds wrong, though it could conceal it.

        What it conceals with depends on what it decoded before. For before the first frame.
        """
        context = self._stream.codec_context
        context.options = context.options | {"err_detect": "explode+bitstream+buffer"}

    def form(self) -> _Form:
        """Return the form of all frames, as far as the clip's beginning tells."""
        context = self._stream.codec_context
        turn = None
        if self._rules.orientation == "apply":
            self._feed.aim(self._start)
            self._open()
            turn = display_turn(self._found(self._next).rotation)
        return _Form((context.width, context.height), turn)

    def moments_of(self, part: SamplePart, moments: Sequence[float]) -> slice:
        """Return which of all moments are a part's: those of whole groups of pictures.

        Each part has at least one, and as much to decode as the others, about.
        """
        groups = [
            [packets for _, packets in members]
            for _, members in groupby(map(self._work, moments), key=lambda moment: moment[0])
        ]
        if len(groups) < part.count:
            raise CorruptSampleError(
                f"{len(groups)} groups of pictures are hit, too few for {part.count} parts; "
                "decode the clip as a whole"
            )
        bounds = _bounds(groups, part.count)
        begins = [0, *accumulate(map(len, groups))]
        return slice(begins[bounds[part.number]], begins[bounds[part.number + 1]])

    def frame_at(self, moment_s: float) -> VideoFrame:
        """Return the frame on display; moments must not go back."""
        target = self._target(moment_s)
        if self._worth_seeking(target):
            self._seek(target)
        self._feed.aim(target)
        self._open()
        while self._next is not None and self._next.time <= target:
            self._shown = self._next
            self._next = self._advance()
        if self._next is None:
            self._check_end()
        return self._found(self._shown or self._next)

    def _target(self, moment_s: float) -> int:
        return self._start + int(moment_s / self._base)

    def _work(self, moment_s: float) -> tuple[int, int]:
        """Return the group of pictures of a moment, and the packets in it up to there."""
        target = self._target(moment_s)
        group = self._group_of(target)
        begin = self._keyframes[group] if self._keyframes else self._start
        packets = bisect_right(self._times, target) - bisect_right(self._times, begin)
        return group, max(packets, 0)

    def _found(self, timed: _Timed | None) -> VideoFrame:
        if timed is None:
            raise CorruptSampleError("the clip has no frame that decodes; leave it out")
        return timed.frame

    def _open(self) -> None:
        if not self._opened:
            self._opened = True
            self._next = self._advance()

    def _group_of(self, target: int) -> int:
        return max(0, bisect_right(self._keyframes, target) - 1)

    def _worth_seeking(self, target: int) -> bool:
        """Whether to begin anew: each group of pictures is decoded by itself, where they are known.

        So what comes of one never depends on those before it, damaged ones among them.
        """
        if len(self._keyframes) > 1:
            before, self._group = self._group, self._group_of(target)
            return self._group != before
        if self._opened and self._next is None:
            return False
        position = self._next.time if self._next is not None else self._start
        return (target - position) * self._base > _BLIND_GAP_S

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
        try:
            frame = self._feed.next()
        except av.ArgumentError as error:
            raise CorruptSampleError(
                f"a frame is damaged or exceeds max_pixels={self._rules.max_pixels} by far; raise "
                "max_pixels in decode_video, or leave the file out"
            ) from error
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
            for packet in packets_of(self._container, self._stream)
            if packet.pts is not None
        ]
        self._container.seek(self._start, stream=self._stream, backward=True)
        return float((max(ends, default=self._start) - self._start) * self._base)


class _Painter:
    """Turns decoder frames into pictures, all through one window."""

    def __init__(self, rules: ClipRules, frame: Frame | None) -> None:
        self._rules = rules
        self._frame = frame
        self._form: _Form | None = None
        self._is_part = False
        self._window: Window | None = None
        self._last: tuple[VideoFrame, Image.Image] | None = None

    def expect(self, form: _Form) -> None:
        """Take no frame of another form: those of other parts would have to have that as well."""
        self._begin(form)
        self._is_part = True

    def paint(self, frame: VideoFrame) -> Image.Image:
        """Return the frame as a picture; the same frame again is the same picture."""
        if self._last is not None and self._last[0] is frame:
            return self._last[1]
        if self._form is None:
            self._begin(self._form_of(frame))
        if not self._fits(frame) or frame.is_corrupt:
            raise CorruptSampleError(
                f"the frame at {frame.time:.2f} s is damaged or of another size; replace the file"
            )
        pixels = frame.to_ndarray(format=_RGB, interpolation=_TO_RGB, threads=1)
        image = self._framed(cast(Bytes3, pixels))
        self._last = (frame, image)
        return image

    def _begin(self, form: _Form) -> None:
        _require_size(*form.size, self._rules)
        self._form = form
        if self._frame is not None:
            self._window = self._frame.window(*turned_size(form.size, form.turn))

    def _form_of(self, frame: VideoFrame) -> _Form:
        turn = display_turn(frame.rotation) if self._rules.orientation == "apply" else None
        return _Form((frame.width, frame.height), turn)

    def _fits(self, frame: VideoFrame) -> bool:
        """Whether a frame is as the first: of the whole in its size, of a part in all."""
        form = self._form_of(frame)
        if self._is_part:
            return form == self._form
        return self._form is not None and form.size == self._form.size

    def _framed(self, pixels: Bytes3) -> Image.Image:
        turn = self._form.turn if self._form is not None else None
        if turn is not None:
            image = Image.fromarray(pixels).transpose(turn)
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
    _require_size(context.width, context.height, rules)
    context.thread_type = "NONE"
    context.thread_count = 1
    context.options = {"max_pixels": str(rules.max_pixels + _ALIGNMENT_PIXELS)}
    return stream


def _require_size(width: int, height: int, rules: ClipRules) -> None:
    if width * height > rules.max_pixels:
        raise CorruptSampleError(
            f"frames of {width} x {height} px exceed max_pixels={rules.max_pixels}; raise "
            "max_pixels in decode_video, or leave the file out"
        )


def _bounds(groups: Sequence[Sequence[int]], parts: int) -> list[int]:
    """Return where parts begin, and the end of the last, given the packets up to each moment.

    A group goes to the part in whose share of all the work its middle lies, as long as each
    part has at least one.
    """
    costs = [group[-1] + len(group) for group in groups]
    total, done, ends = sum(costs), 0, [0] * parts
    for number, cost in enumerate(costs):
        ends[min((2 * done + cost) * parts // (2 * total), parts - 1)] = number + 1
        done += cost
    bounds = [0]
    for number in range(parts - 1):
        bounds.append(min(max(ends[number], bounds[-1] + 1), len(groups) - (parts - 1 - number)))
    return [*bounds, len(groups)]


def _index_of(stream: Any, start: int) -> tuple[list[int], list[int]]:
    """Return the decoding times of all packets, and the display times of keyframes.

    Containers list decoding times; display lags behind by what reordering needs at the start.
    """
    entries = [entry for entry in stream.index_entries if not entry.is_discard]
    times = sorted(entry.timestamp for entry in entries)
    lag = start - times[0] if times else 0
    return times, sorted(entry.timestamp + lag for entry in entries if entry.is_keyframe)
