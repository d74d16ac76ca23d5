"""Proves that two hosts make the same bytes of the same sample, before any is exchanged.

Versions alone prove nothing (the same FFmpeg on another CPU takes other code paths), so each
host runs the pipeline on golden vectors, small files that come with headrace, and the digests
of the results are compared. Versions are told to people when the digests differ.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Protocol

import av
import numpy as np
import PIL
from av import library_versions as ffmpeg_versions
from PIL import features

from headrace.core.digest import record_digest
from headrace.core.draws import SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError
from headrace.core.numbered import numbered, shared_name
from headrace.transform.pipeline import TRANSFORM_VERSION
from headrace.transform.program import Program

_FIELD_OF = {
    "photo.jpg": "image",
    "dense.jpg": "image",
    "alpha.png": "image",
    "lossy.webp": "image",
    "clip.mp4": "video",
    "sound.mp3": "audio",
    "sound.m4a": "audio",
    "sound.opus": "audio",
    "words.txt": "text",
}
_CUT_OFF = "photo.jpg"
"""Also decoded without its second half: leniency with broken files must agree, too."""

_SECOND = numbered("image", 1)
"""A picture is also taken as the second of its sample: its draws must agree, too."""

_KEYS = (SampleKey(17, 0, 1), SampleKey(17, 3, 40))
_KEYS_OF = dict.fromkeys(("video", "audio", "text", _SECOND), _KEYS[:1])
"""Fields with one key: clips and sound are dear, texts draw nothing, pictures are proved already.
"""

_CPU_FLAGS = ("sse4_1", "avx", "avx2", "avx512f", "avx512bw", "asimd", "sve", "sve2")
_FFMPEG = ("libavcodec", "libavformat", "libavutil", "libswscale")


class Evidence(Protocol):
    """What is compared: ours, or the same as it came over the wire."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Library versions and CPU family."""
        ...

    @property
    def golden(self) -> Mapping[str, str]:
        """Golden vector's name → digest of what the pipeline makes of it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """How this host decodes."""

    versions: dict[str, str]
    """Library versions and CPU family; told to people when digests differ."""

    golden: dict[str, str]
    """Golden vector's name → digest of what the pipeline makes of it, or why it makes nothing."""


def fingerprint(program: Program) -> Fingerprint:
    """Return the digests of what the program makes of the golden vectors (below 0.1 s of CPU)."""
    touched = {field for op in program.ops[: program.sample_ops] for field in op.fields}
    golden = {
        f"{name}#{number}": _outcome(program, field, data, key)
        for name, field, data in _vectors()
        if shared_name(field) in touched
        for number, key in enumerate(_KEYS_OF.get(field, _KEYS))
    }
    return Fingerprint(versions=dict(_versions()), golden=golden)


def compatible(ours: Evidence, theirs: Evidence) -> str | None:
    """Return None if both hosts make the same bytes, else why not, in a sentence for people."""
    differing = _differing(ours.golden, theirs.golden)
    if not differing:
        return None
    vectors = {name.partition("#")[0] for name in differing}
    versions = ", ".join(
        f"{name} {ours.versions.get(name, 'absent')} here and "
        f"{theirs.versions.get(name, 'absent')} there"
        for name in _differing(ours.versions, theirs.versions)
    )
    return (
        f"the hosts do not make the same bytes of {', '.join(sorted(vectors))} "
        f"({versions or 'although all versions are equal'}); install the same versions on both"
    )


def _differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))


def _outcome(program: Program, field: str, data: bytes, key: SampleKey) -> str:
    try:
        return record_digest(
            program.run({field: _value(field, data)}, key, stop=program.sample_ops)
        )
    except CorruptSampleError:
        return "corrupt"
    except ConfigError as error:
        return f"cannot run: {error}"


def _value(field: str, data: bytes) -> bytes | str:
    """Return what a dataset's reader gives for the field: texts come decoded."""
    return data.decode() if field == "text" else data


@lru_cache(maxsize=1)
def _vectors() -> tuple[tuple[str, str, bytes], ...]:
    """Return (name, field, bytes) of all golden vectors."""
    folder = files("headrace.transform") / "golden"
    whole = [(name, field, (folder / name).read_bytes()) for name, field in _FIELD_OF.items()]
    halves = [
        (f"half of {name}", field, data[: len(data) // 2])
        for name, field, data in whole
        if name == _CUT_OFF
    ]
    (photo,) = (data for name, _, data in whole if name == "photo.jpg")
    return (*whole, *halves, ("second photo.jpg", _SECOND, photo))


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    return tuple(sorted(_version_pairs()))


def _version_pairs() -> Iterator[tuple[str, str]]:
    yield "transform", str(TRANSFORM_VERSION)
    yield "numpy", np.__version__
    yield "pillow", PIL.__version__
    yield "libjpeg-turbo", features.version_feature("libjpeg_turbo") or "absent"
    yield "libwebp", features.version_module("webp") or "absent"
    yield "pyav", av.__version__
    for name in _FFMPEG:
        yield name, ".".join(map(str, ffmpeg_versions[name]))
    yield "tokenizers", _installed("tokenizers")
    yield "cpu", _cpu()


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _cpu() -> str:
    """Return the architecture and those of its extensions that decoders choose code by."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    lines = (line for line in text.splitlines() if line.startswith(("flags", "Features")))
    flags = next(lines, "").partition(":")[2].split()
    return " ".join([platform.machine(), *(flag for flag in _CPU_FLAGS if flag in flags)])
