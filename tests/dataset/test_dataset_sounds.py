"""Sound is indexed by its headers, whatever its format; what cannot be decoded is named."""

from __future__ import annotations

import io

import pytest

from dataset.made_up_media import clip
from headrace.dataset.media import media_kind
from headrace.dataset.probe import Headers, probe
from sounds import LOSSLESS, LOSSY, sound, wav


def probed(kind: str, data: bytes) -> Headers:
    return probe(kind, lambda: io.BytesIO(data))  # type: ignore[arg-type]


@pytest.mark.parametrize(("container", "codec"), [*LOSSLESS, *LOSSY, ("matroska", "libopus")])
def test_the_duration_is_known_from_the_headers(container: str, codec: str) -> None:
    headers = probed("audio", sound(container, codec))
    assert headers.duration_s == pytest.approx(3.0, rel=0.05)
    assert headers.broken is None
    assert headers.cost_s > 0


@pytest.mark.parametrize("ending", ["wav", "FLAC", "mp3", "ogg", "oga", "opus", "m4a", "aiff"])
def test_sounds_are_known_by_their_names(ending: str) -> None:
    assert media_kind(f"folder/speech.{ending}") == "audio"


def test_what_is_dearer_to_decode_costs_more() -> None:
    formats = [("wav", "pcm_s16le"), ("mp3", "libmp3lame"), ("ogg", "libopus")]
    costs = [probed("audio", sound(*names)).cost_s for names in formats]
    assert costs == sorted(costs)
    assert costs[0] == pytest.approx(3 * 48_000 * 2 * 4e-9, rel=0.1)
    assert costs[-1] > 4 * costs[0]


def test_streams_that_nothing_decodes_are_broken() -> None:
    assert probed("audio", wav(bits=0)).broken == "there is no decoder for it"
    unknown = clip(2).replace(b"avc1", b"zzzz")
    assert probed("video", unknown).broken == "there is no decoder for it"
