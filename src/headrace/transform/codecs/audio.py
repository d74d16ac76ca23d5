"""Decodes the sound of a file, or a cut of it, with PyAV.

A cut is the same numbers as that part of the whole, where the format's packets stand for
themselves (WAV, FLAC) or are decoded from a second before the cut (MP3, AAC; Opus comes close).
Resampling is ours, and so is the mix to one channel: FFmpeg's differ between CPU families.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from io import SEEK_END, BytesIO
from typing import Any, BinaryIO

import av
import numpy as np
from av.audio.frame import AudioFrame

from headrace.core.errors import CorruptSampleError
from headrace.core.formats import MEDIA_FORMATS
from headrace.core.movtables import require_credible_tables
from headrace.core.record import AnyArray
from headrace.transform.codecs.packets import packets_of
from headrace.transform.codecs.resample import Resampler, Sound
from headrace.transform.corrupt import untrusted_bytes

RATES = (1_000, 384_000)
"""Lowest and highest rate that is taken or made [Hz]."""

PREROLL_S = 1.0
"""Decoded before a cut: MP3 and AAC refer to what lies before, Opus needs 0.08 s to settle."""

_TELLING = frozenset({"wav", "w64", "aiff", "caf", "flac", "mov,mp4,m4a,3gp,3g2,mj2"})
"""Formats whose headers tell the length; that of others is guessed, or is that of what is left."""

_MISSING_S = 0.1
"""A file that ends earlier than its header says by more than this was cut off."""

_HEAD_BYTES = 12
_WAV_OPTIONS = {"probesize": "65536"}
"""FFmpeg looks for other codecs inside WAV: in all that it may probe, which took 17 ms."""

_UNKNOWN_SIZE = 0x7FFF_F000
"""Programs that write WAV into a pipe put this, or more, where its size belongs [bytes]."""

_SCALES = {"u8": 2.0**7, "s16": 2.0**15, "s32": 2.0**31, "s64": 2.0**63}


@dataclass(frozen=True, kw_only=True, slots=True)
class SoundRules:
    """Which stream is read, what becomes of it, and the limits of a hostile file."""

    stream: int
    """Number among the audio streams."""

    rate: int | None
    """Rate of the result [Hz]; None for the file's own."""

    mono: bool
    """Take the mean of the channels."""

    max_samples: int
    """Most samples, over all channels, that are decoded or made."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of the sound."""

    seconds: float

    place: float
    """How much of what is left over lies before it: 0 for the beginning, 1 for the end."""


def decode_sound(source: bytes | BinaryIO, rules: SoundRules, cut: Cut | None) -> Sound:
    """Return the sound in [-1, 1], ``float32 [channels, samples]``; float files may be louder.

    A file that is shorter than a cut is returned whole.

    Raises:
        CorruptSampleError: no sound, cut off, changing in the middle, or above a limit.
    """
    handle = BytesIO(source) if isinstance(source, bytes) else source
    handle.seek(0)
    head, size = handle.read(_HEAD_BYTES), handle.seek(0, SEEK_END)
    require_credible_tables(handle)
    options = {"format_whitelist": MEDIA_FORMATS, **(_WAV_OPTIONS if _is_wav(head) else {})}
    with (
        untrusted_bytes("sound"),
        av.open(handle, mode="r", metadata_errors="ignore", options=options) as container,
    ):
        _require_whole(head, size, container.bit_rate or 0)
        reader = _SoundReader(container, rules)
        sound = reader.whole() if cut is None else reader.cut(cut)
        if not np.isfinite(sound).all():
            raise CorruptSampleError("the sound has values that are no numbers; replace the file")
        return sound


class _SoundReader:
    """Reads one stretch of one stream, or two where a header told a wrong length."""

    def __init__(self, container: Any, rules: SoundRules) -> None:
        self._container = container
        self._rules = rules
        self._stream = _audio_stream(container, rules)
        self._rate: int = self._stream.rate
        self._base: Fraction = self._stream.time_base
        self._resampler = Resampler(self._rate, rules.rate or self._rate)
        self._tells_length = bool(self._stream.duration) and (
            container.format.name in _TELLING or self._exceeds_file()
        )
        self._is_moved = False

    def whole(self) -> Sound:
        """Return all of it."""
        sound = self._decoded(0, None)
        if self._tells_length:
            self._require(sound.shape[1], self._told_length())
        if not sound.shape[1]:
            raise CorruptSampleError("there is no sound in it; leave the file out")
        return self._resampled(sound, 0, 0, self._resampler.length(sound.shape[1]))

    def cut(self, cut: Cut) -> Sound:
        """Return a part of it. Where a header that only guesses was wrong, packets are counted."""
        sound = self._part(cut, self._told_length())
        if sound is None:
            sound = self._part(cut, self._scanned_length())
        if sound is None:
            raise CorruptSampleError("the sound ends before its packets do; replace the file")
        return sound

    def _part(self, cut: Cut, length: int) -> Sound | None:
        """Return a cut of a sound of that length; None where it turns out to be shorter."""
        wanted = round(cut.seconds * (self._rules.rate or self._rate))
        total = self._resampler.length(length)
        begin = int(cut.place * max(0, total - wanted))
        end = min(begin + wanted, total)
        if end <= begin:
            return None
        first, last = self._resampler.needed(begin, end)
        sound = self._decoded(first, last)
        reached = first + sound.shape[1]
        if self._tells_length:
            self._require(reached, min(last, length))
        end = min(end, self._resampler.length(reached))
        if end <= begin or self._is_short(reached, min(last, length)):
            return None
        return self._resampled(sound, first, begin, end)

    def _resampled(self, sound: Sound, offset: int, begin: int, end: int) -> Sound:
        if (end - begin) * len(sound) > self._rules.max_samples:
            raise _too_long(self._rules)
        return self._resampler.resample(sound, offset, begin, end)

    def _exceeds_file(self) -> bool:
        """Whether the length that is told does not fit into the file, and so is not made of it."""
        held_s: float = self._container.size * 8 / (self._stream.bit_rate or 1)
        return self._told_length() > (held_s + _MISSING_S) * self._rate

    def _is_short(self, reached: int, promised: int) -> bool:
        return promised - reached > _MISSING_S * self._rate

    def _require(self, reached: int, promised: int) -> None:
        if self._is_short(reached, promised):
            raise CorruptSampleError(
                f"the sound ends after {reached / self._rate:.2f} s of "
                f"{self._told_length() / self._rate:.2f} s: it was cut off or damaged; replace "
                "the file"
            )

    def _told_length(self) -> int:
        """Return the length by the headers [samples]; 0 where they do not say."""
        if self._stream.duration:
            return int(self._stream.duration * self._base * self._rate)
        return int((self._container.duration or 0) * self._rate / av.time_base)

    def _scanned_length(self) -> int:
        """Return the length by the times of all packets [samples]."""
        self._seek(0)
        ends = [
            self._place(packet.pts + (packet.duration or 0))
            for packet in packets_of(self._container, self._stream)
            if packet.pts is not None
        ]
        return max(ends, default=0)

    def _place(self, time: int | None) -> int:
        """Return which sample, from the first one on, is heard at a time; 0 if it has none."""
        if time is None:
            return 0
        since: int = time - (self._stream.start_time or 0)
        return max(0, round(since * self._base * self._rate))

    def _seek(self, place: int) -> bool:
        """Go to a sample or before it; tell whether the container can."""
        if place or self._is_moved:
            time = int(place / (self._base * self._rate))
            try:
                self._container.seek(time + (self._stream.start_time or 0), stream=self._stream)
            except av.FFmpegError:
                return False
        self._is_moved = True
        return True

    def _decoded(self, begin: int, end: int | None) -> Sound:
        """Return the samples from ``begin`` to ``end``, or as far as there are any."""
        before = begin - int(PREROLL_S * self._rate)
        if before > 0 and self._seek(before):
            sound = self._stretch(begin, end, is_sought=True)
            if sound is not None:
                return sound
        self._seek(0)
        sound = self._stretch(begin, end, is_sought=False)
        return np.empty((1, 0), np.float32) if sound is None else sound

    def _stretch(self, begin: int, end: int | None, *, is_sought: bool) -> Sound | None:
        """Decode from here on; None where this is behind ``begin``, or nothing is left."""
        pieces: list[Sound] = []
        position, decoded = -1, 0
        for frame in self._frames(is_sought=is_sought):
            if position < 0:
                position = self._place(frame.pts) if is_sought else 0
                if position > begin:
                    return None
            decoded += frame.samples * frame.layout.nb_channels
            if decoded > self._rules.max_samples:
                raise _too_long(self._rules)
            piece, skipped = self._piece(frame), max(0, begin - position)
            pieces.append(piece[:, skipped:].copy() if skipped else piece)  # a view keeps it all
            position += frame.samples
            if end is not None and position >= end:
                break
        return _joined(pieces)[:, : None if end is None else end - begin] if pieces else None

    def _frames(self, *, is_sought: bool) -> Iterator[AudioFrame]:
        """Yield what decodes.

        A packet that does not ends it, unless it is the last: tags and other leftovers are no
        sound. The first after a seek may refer to what lies before, and are passed over.
        """
        failure: av.FFmpegError | None = None
        begun = not is_sought
        for packet in packets_of(self._container, self._stream):
            try:
                frames = packet.decode()
            except av.FFmpegError as error:
                failure = error if begun else None
                continue
            if frames and failure is not None:
                raise failure
            begun = begun or bool(frames)
            yield from frames

    def _piece(self, frame: AudioFrame) -> Sound:
        """Return a frame's samples, ``float32 [channels, samples]``, mixed where that is asked."""
        if frame.sample_rate != self._rate or frame.is_corrupt:
            raise CorruptSampleError(
                f"the sound is damaged, or of {frame.sample_rate} Hz instead of {self._rate}; "
                "replace the file"
            )
        sound = _planes(frame)
        if self._rules.mono and len(sound) > 1:
            total: Sound = np.add.reduce(sound, axis=0, keepdims=True)
            return np.divide(total, np.float32(len(sound)), out=total)
        return sound


def _is_wav(head: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:] == b"WAVE"


def _require_whole(head: bytes, size: int, bit_rate: int) -> None:
    """Raise where a WAV file is shorter than it says: FFmpeg takes what is there for the whole."""
    told = int.from_bytes(head[4:8], "little") if _is_wav(head) else 0
    missing = told + 8 - size if told < _UNKNOWN_SIZE else 0
    if missing * 8 > _MISSING_S * bit_rate:
        raise CorruptSampleError(f"the file was cut off, {missing} B are gone; replace it")


def _audio_stream(container: Any, rules: SoundRules) -> Any:
    streams = container.streams.audio
    if rules.stream >= len(streams):
        raise CorruptSampleError(
            f"audio stream {rules.stream} was asked for, the file has {len(streams)}; check "
            "decode_audio.stream, or leave the file out"
        )
    stream = streams[rules.stream]
    if stream.codec_context is None:
        raise CorruptSampleError("FFmpeg has no decoder for the sound; leave the file out")
    low, high = RATES
    if not low <= (stream.rate or 0) <= high:
        raise CorruptSampleError(
            f"sound of {stream.rate} Hz is not between {low} and {high} Hz; leave the file out"
        )
    stream.codec_context.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    return stream


def _planes(frame: AudioFrame) -> Sound:
    """Return a frame's channels as float32; integers are divided by the largest of their type."""
    array: AnyArray = frame.to_ndarray()
    if not frame.format.is_planar:
        array = np.ascontiguousarray(array.reshape(-1, frame.layout.nb_channels).T)
    with np.errstate(over="ignore"):  # doubles beyond float32 are found to be infinite
        sound = array.astype(np.float32)
    scale = _SCALES.get(frame.format.name.removesuffix("p"))
    if scale is not None:
        sound -= scale if array.dtype == np.uint8 else 0.0
        sound /= scale
    return sound


def _joined(pieces: list[Sound]) -> Sound:
    if len({len(piece) for piece in pieces}) > 1:
        raise CorruptSampleError("the number of channels changes in the sound; replace the file")
    return np.concatenate(pieces, axis=1)


def _too_long(rules: SoundRules) -> CorruptSampleError:
    return CorruptSampleError(
        f"the sound has more than max_samples={rules.max_samples} samples in all channels; take "
        "a part of it (seconds), raise max_samples in decode_audio, or leave the file out"
    )
