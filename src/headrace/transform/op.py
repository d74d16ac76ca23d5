"""What every op promises: plain parameters, a meaning, an estimate. Ops hold no state.

An op acts on those of its ``fields`` that a record has and leaves all others alone, so one
list of ops serves pictures, clips and text in one dataset. Of a record that has several values
of a field, ``image.0``, ``image.1`` and so on, it acts on each, with draws of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, ClassVar, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError
from headrace.core.numbered import numbered, shared_name, split_number
from headrace.core.record import AnyArray, Value
from headrace.transform.pictures import Pictures
from headrace.transform.spec import Spec, picture_size, resized
from headrace.transform.window import Window

MEDIA = ("image", "video")
"""Fields that hold pixels once decoded."""

Column: TypeAlias = "AnyArray | list[Value]"
"""One field over a batch: stacked, or a list where the samples differ in shape."""

Columns = dict[str, Column]

Memory: TypeAlias = Callable[[tuple[int, ...], npt.DTypeLike], AnyArray]
"""Gives an uninitialised array of a shape and dtype."""

Rows: TypeAlias = npt.NDArray[np.int64]
"""Which row of a batch each entry of a column belongs to, ascending."""


def op_name(class_name: str) -> str:
    """Return the name that JSON calls an op by: ``DecodeImage`` → ``decode_image``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name).lower()


class Op(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="op",
    tag=op_name,
):
    """One step of a pipeline, as data."""

    elementwise: ClassVar[bool] = False
    """Each element of the result depends on one element alone: may run on a stacked batch."""

    grows: ClassVar[bool] = False
    """Cheap arithmetic whose result is larger than what went in: never worth sending instead."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of a record that the op acts on, if they are there: a parameter of every op."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Return the op's name in JSON and in tables."""
        return str(self.__struct_config__.tag)

    def target(self, field: str) -> str:
        """Return the name of the field that the result is put in."""
        return field

    def acts_on(self, field: str) -> bool:
        """Whether the op acts on a record's field: one of its fields, or one of several of it."""
        return field in self.fields or shared_name(field) in self.fields

    def result_of(self, field: str) -> str:
        """Return where the result of a record's field is put; one of several keeps its number."""
        name, number = split_number(field)
        if number is None or field in self.fields:
            return self.target(field)
        return numbered(self.target(name), number)

    def check_behind(self, before: Sequence[Op]) -> None:
        """Raise ConfigError where the op cannot be right behind these, whatever a sample holds."""

    def infer(self, spec: Spec) -> Spec:
        """Return what comes out when ``spec`` goes in."""
        return spec

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time on one sample [s]; see :mod:`headrace.transform.cost`."""
        raise NotImplementedError


class Framing(Op, frozen=True):
    """Chooses a part of a picture and a size; computed together with a decode before it."""

    def window(self, width: int, height: int, draws: Draws) -> Window:
        """Return the window for a picture of this size."""
        raise NotImplementedError

    def typical(self, width: float, height: float) -> tuple[float, float, float, float]:
        """Return the expected box and result: (box width, box height, width, height) [px]."""
        raise NotImplementedError

    def infer(self, spec: Spec) -> Spec:
        """Return the spec at the window's size."""
        *_, width, height = self.typical(*picture_size(spec))
        return resized(spec, width=width, height=height)


class Decoder(Op, frozen=True):
    """Makes pictures of encoded bytes; knows the window behind it, so as to decode less."""

    def decode(self, value: Value, draws: Draws, frame: Frame | None) -> Pictures:
        """Return the decoded pictures, cut and resized if ``frame`` is given.

        Raises:
            CorruptSampleError: the bytes cannot be decoded, or exceed the op's limits.
        """
        raise NotImplementedError

    def decode_cost_s(self, spec: Spec, frame: Framing | None) -> float:
        """Return the estimated CPU time including the framing behind it [s]."""
        raise NotImplementedError

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time of decoding at full size [s]."""
        return self.decode_cost_s(spec, None)


class PictureOp(Op, frozen=True):
    """Changes decoded pictures."""

    def apply(self, pictures: Pictures, draws: Draws) -> Pictures:
        """Return the changed pictures."""
        raise NotImplementedError


class ArrayOp(Op, frozen=True):
    """Elementwise arithmetic on ``[..., H, W, C]`` or ``[..., C, H, W]`` arrays."""

    elementwise: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    in_place: ClassVar[bool] = False
    """``out`` may be ``array`` itself: dtype and shape stay."""

    def compute(self, array: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return the result, in ``out`` if given; ``array`` is left as it was."""
        raise NotImplementedError


class ValueOp(Op, frozen=True):
    """Makes one plain value of another: text, tokens, whatever a user's function returns."""

    def apply(self, value: Value, draws: Draws) -> Value:
        """Return the new value."""
        raise NotImplementedError


class BatchOp(Op, frozen=True):
    """Joins the samples of a batch; runs on the client, after all ops on single samples."""

    def join(self, columns: Columns, memory: Memory = np.empty) -> Columns:
        """Return the batch with the op's fields joined, in arrays that ``memory`` gives."""
        raise NotImplementedError

    def rows(self, columns: Columns, rows: Mapping[str, Rows]) -> dict[str, Rows]:  # noqa: ARG002
        """Return the rows of those columns that it makes out of entries of single rows.

        Args:
            columns: The batch before the op.
            rows: Rows of all of its columns.
        """
        return {}


class Frame:
    """A framing op together with its draws: what a decoder asks for the window."""

    __slots__ = ("_draws", "_op")

    def __init__(self, op: Framing, draws: Draws) -> None:
        self._op = op
        self._draws = draws

    def window(self, width: int, height: int) -> Window:
        """Return the window of a picture of this size; asked once, since it draws."""
        return self._op.window(width, height, self._draws)


def require_array(value: object, op: Op, field: str) -> AnyArray:
    """Return the value if it is an array.

    Raises:
        ConfigError: it is something else; the message says which op is missing.
    """
    if isinstance(value, np.ndarray):
        return value
    raise ConfigError(
        f"op {op.name} meets field {field!r} as {type(value).__name__}, not as an array; "
        f"put an op that decodes {field!r} before it, or leave the field out of its fields"
    )


def encoded_source(value: Value, op: Op) -> bytes | BinaryIO:
    """Return an encoded value as bytes or as the stream it is.

    Raises:
        ConfigError: it is neither; it was probably decoded before.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, (np.ndarray, str, int, float)):
        raise ConfigError(
            f"op {op.name} decodes bytes but meets {type(value).__name__}; "
            "decode each field once, first of all"
        )
    return value


def encoded_bytes(value: Value, op: Op) -> bytes:
    """Return all bytes of an encoded value, reading them if it is a stream."""
    source = encoded_source(value, op)
    if isinstance(source, bytes):
        return source
    source.seek(0)
    return source.read()
