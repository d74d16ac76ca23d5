"""Digests of whole files by the name of their algorithm, as MosaicML Streaming names them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import xxhash

_PIECE_BYTES = 1024 * 1024


def wrong_digest(stream: BinaryIO, digests: Mapping[str, str]) -> str | None:
    """Return the first algorithm by which a stream is not what it should be; None if it is.

    Args:
        stream: Read to its end, unless no algorithm is known.
        digests: Algorithm → expected digest, hexadecimal; algorithms not known here are left out.
    """
    hashers = {name: made for name in digests if (made := _hasher(name)) is not None}
    while hashers and (piece := stream.read(_PIECE_BYTES)):
        for hasher in hashers.values():
            hasher.update(piece)
    wrong = (name for name, made in hashers.items() if made.hexdigest() != digests[name].lower())
    return next(wrong, None)


def _hasher(name: str) -> Any:
    if name in xxhash.algorithms_available:
        return getattr(xxhash, name)()
    known = name in hashlib.algorithms_guaranteed and not name.startswith("shake")
    return hashlib.new(name) if known else None
