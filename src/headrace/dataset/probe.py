"""Reads the headers of media: sizes, durations, keyframes. Never decodes a pixel.

EXIF orientation is left alone: width and height are those of the stored picture. Of
several video streams the one is described that FFmpeg calls the best, the same that is
decoded. A file that cannot be understood is described as broken; nothing is raised for it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import av
from av.container import InputContainer
from PIL import Image, UnidentifiedImageError

from headrace.core.errors import HeadraceError
from headrace.core.formats import MEDIA_FORMATS, PICTURE_FORMATS
from headrace.core.movtables import require_credible_tables
from headrace.core.numbered import is_numbered
from headrace.dataset.cost import audio_cost, image_cost, video_cost
from headrace.dataset.location import Kind

IMAGE_READ_BYTES = 16 * 1024
"""Read at once while parsing a picture's header [bytes]."""

_NO_DECODER = "there is no decoder for it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Headers:
    """What a medium says about itself."""

    width: int | None = None
    height: int | None = None
    duration_s: float | None = None
    frames: int | None = None
    keyframes: tuple[float, ...] = ()
    """Presentation times of the video's keyframes [s]."""

    cost_s: float = 0.0
    """Estimated CPU to decode [s]."""

    broken: str | None = None
    """Why nothing is known; None if all went well."""


def probe(kind: Kind, open_stream: Callable[[], BinaryIO]) -> Headers:
    """Return what the headers in a seekable stream say; kinds without headers say nothing."""
    probes = {"image": _probe_image, "video": _probe_video, "audio": _probe_audio}
    if kind not in probes:
        return Headers()
    try:
        with open_stream() as stream:
            return probes[kind](stream)
    except HeadraceError as error:
        return Headers(broken=str(error))
    except av.FFmpegError as error:
        return Headers(broken=f"cannot be read as {kind}: {error.strerror or error}")
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - parsers of hostile bytes fail in every way they can
        return Headers(broken=f"cannot be read as {kind}: {str(error) or type(error).__name__}")


def joint(headers: Mapping[str, Headers]) -> Headers:
    """Return what is known of a sample of several media, each with its field's name.

    Sizes and times are those of the first; broken is what one is broken by. Keyframes, by which
    clips are divided, are told of one that is alone and has no number.
    """
    found = list(headers.values())
    if not found or (len(found) == 1 and not any(map(is_numbered, headers))):
        return found[0] if found else Headers()
    broken = (f"{field}: {each.broken}" for field, each in headers.items() if each.broken)
    return replace(
        found[0],
        keyframes=(),
        cost_s=sum(each.cost_s for each in found),
        broken=next(broken, None),
    )


def _probe_image(stream: BinaryIO) -> Headers:
    try:
        image = Image.open(stream, formats=PICTURE_FORMATS)
    except UnidentifiedImageError:
        return Headers(broken=f"not an image in any of the formats {', '.join(PICTURE_FORMATS)}")
    width, height = image.size
    return Headers(width=width, height=height, cost_s=image_cost(image.format, width, height))


def _probe_video(stream: BinaryIO) -> Headers:
    with _open_media(stream) as container:
        video = container.streams.best("video")
        if not isinstance(video, av.VideoStream):
            return Headers(broken="there is no video stream in it")
        if not _has_decoder(video):
            return Headers(broken=_NO_DECODER)
        frames, keyframes, end = 0, [], 0.0
        for packet in container.demux(video):
            if packet.size == 0 or packet.is_discard:
                continue
            frames += 1
            time = float((packet.pts or 0) * packet.time_base)
            end = max(end, time + float((packet.duration or 0) * packet.time_base))
            if packet.is_keyframe:
                keyframes.append(time)
        if frames == 0:
            return Headers(broken="the video stream is empty")
        return Headers(
            width=video.width,
            height=video.height,
            duration_s=_duration(container, video, end),
            frames=frames,
            keyframes=tuple(sorted(keyframes)),
            cost_s=video_cost(video.codec.canonical_name, video.width, video.height, frames),
        )


def _probe_audio(stream: BinaryIO) -> Headers:
    with _open_media(stream) as container:
        audio = container.streams.best("audio")
        if not isinstance(audio, av.AudioStream):
            return Headers(broken="there is no audio stream in it")
        if not _has_decoder(audio):
            return Headers(broken=_NO_DECODER)
        duration = _duration(container, audio, 0.0)
        samples = duration * audio.rate * audio.channels
        return Headers(duration_s=duration, cost_s=audio_cost(audio.codec.canonical_name, samples))


def _has_decoder(stream: Any) -> bool:
    return stream.codec_context is not None  # PyAV's types say that it always is


def _open_media(stream: BinaryIO) -> InputContainer:
    if not stream.seek(0, io.SEEK_END):  # FFmpeg would seek before its start
        raise ValueError("it is empty")
    require_credible_tables(stream)
    return av.open(stream, mode="r", options={"format_whitelist": MEDIA_FORMATS})


def _duration(
    container: InputContainer, stream: av.VideoStream | av.AudioStream, end: float
) -> float:
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    if container.duration is not None:
        return container.duration / av.time_base
    return end
