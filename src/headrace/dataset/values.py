"""Makes values of a sample's encoded fields: the same wherever they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headrace.core.record import AnyArray, Value
from headrace.dataset.digits import in_64_bits, whole_number
from headrace.dataset.features import BYTES, numbers
from headrace.dataset.location import Container, Member
from headrace.dataset.mdsvalues import mds_value

Decode = Callable[[bytes], Value]


def value(container: Container, field: str, name: str, data: bytes) -> Value:
    """Return the value of one field.

    ``text`` and ``json`` become str (a ``text`` that is not UTF-8 stays bytes, for an op that
    knows its encoding), ``label`` an int. Containers that say how values are encoded are taken
    at their word. Media and unknown fields stay bytes.

    Args:
        container: What holds the sample.
        field: The record's field.
        name: ``Member.name``.
        data: What ``SampleReader.read_raw`` returned.

    Raises:
        ValueError: the bytes are not such a value.
        LookupError: as ``ValueError``.
        CorruptDataError: as ``ValueError``.
    """
    if container == "arrow" and name in _INTEGERS:
        return in_64_bits(int(np.frombuffer(data, name)[0]))
    if container in _ENCODED and name != BYTES:
        return _ENCODED[container](name, data)
    decode = _BY_FIELD.get(field)
    return decode(data) if decode else data


def document_lengths(members: Sequence[Member]) -> AnyArray:
    """Return how many tokens of each document are in a window, ``int32 [documents]``."""
    return np.array([m.length // np.dtype(m.name).itemsize for m in members], np.int32)


def _text(data: bytes) -> Value:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _tokens(name: str, data: bytes) -> Value:
    tokens = np.frombuffer(data, np.dtype(name).newbyteorder("<"))
    narrow = tokens.dtype.kind in "iu" and tokens.dtype.itemsize < 4
    return tokens.astype(np.int32) if narrow else tokens.astype(tokens.dtype.newbyteorder("="))


_BY_FIELD: dict[str, Decode] = {"label": whole_number, "json": bytes.decode, "text": _text}

_INTEGERS = frozenset(f"{sign}{size}" for sign in ("<i", "<u") for size in (2, 4, 8)) | {
    "|i1",
    "|u1",
}
"""Types of whole numbers as Arrow has them."""

_ENCODED: dict[Container, Callable[[str, bytes], Value]] = {
    "mds": mds_value,
    "megatron": _tokens,
    "tfrecord": numbers,
}
