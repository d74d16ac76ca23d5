"""A pipeline: a frozen list of ops that round-trips through JSON and is named by a digest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import msgspec

from headrace.core.digest import name_digest
from headrace.core.errors import ConfigError
from headrace.transform import ops as known_ops
from headrace.transform.op import BatchOp, Op
from headrace.transform.ops.user import UserOp

TRANSFORM_VERSION = 1
"""Raised whenever an op's bytes change for the same parameters; part of JSON and digest."""

_OPS: Mapping[str, type[Op]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (getattr(known_ops, name) for name in known_ops.__all__)
}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What is done to each sample, in order; ops on whole batches come last."""

    ops: tuple[Op, ...]

    def __init__(self, ops: Iterable[Op]) -> None:
        """Check the ops' parameters and order.

        Raises:
            ConfigError: a parameter has a wrong type, an op on samples follows one on batches, or
                an op contradicts one before it.
        """
        if not isinstance(ops, Iterable):
            raise ConfigError(f"a pipeline is made of a list of ops, not of {ops!r}; write [op, …]")
        object.__setattr__(self, "ops", tuple(_checked(op) for op in ops))
        _check_order(self.ops)
        for position, op in enumerate(self.ops):
            op.check_behind(self.ops[:position])

    @property
    def sample_ops(self) -> int:
        """Return the number of leading ops that work on single samples."""
        return sum(not isinstance(op, BatchOp) for op in self.ops)

    @property
    def digest(self) -> str:
        """Return the digest of the canonical JSON; it names the pipeline."""
        return name_digest(self.to_json().encode())

    def to_json(self) -> str:
        """Return canonical JSON: sorted keys, every parameter, the version."""
        document = {"version": TRANSFORM_VERSION, "ops": list(self.ops)}
        return msgspec.json.encode(document, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str | bytes, *, allowed: Iterable[str] = ()) -> Pipeline:
        """Return the pipeline that ``text`` describes; ``to_json`` of it is canonical again.

        Args:
            text: JSON object with ``version`` and ``ops``; parameters left out have defaults.
            allowed: Patterns of import paths (``package.module:*``) that user ops may have.

        Raises:
            ConfigError: not such JSON, another version, an unknown op or parameter (the
                nearest known one is named), or a user op that is not allowed.
        """
        document = _document(text)
        version = document.get("version", TRANSFORM_VERSION)
        if version != TRANSFORM_VERSION:
            raise ConfigError(
                f"the pipeline has version {version!r}, this headrace runs version "
                f"{TRANSFORM_VERSION}; use the same release of headrace on all hosts"
            )
        pipeline = cls(_op(number, entry) for number, entry in enumerate(document["ops"]))
        _check_allowed(pipeline.ops, tuple(allowed))
        return pipeline


def _document(text: str | bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the pipeline is not JSON: {error}") from error
    if isinstance(document, list):
        document = {"ops": document}
    if not isinstance(document, dict) or not isinstance(document.get("ops"), list):
        raise ConfigError('a pipeline is a JSON object {"version": 1, "ops": [{"op": …}, …]}')
    for key in document.keys() - {"version", "ops"}:
        raise ConfigError(f"pipeline: {_unknown('key', key, ('version', 'ops'))}")
    return document


def _op(number: int, entry: object) -> Op:
    if not isinstance(entry, dict) or not isinstance(entry.get("op"), str):
        raise ConfigError(f'op {number} must be a JSON object with a name, as {{"op": "resize"}}')
    name = entry["op"]
    if name not in _OPS:
        raise ConfigError(f"op {number}: {_unknown('op', name, _OPS)}")
    kind = _OPS[name]
    for key in entry.keys() - {"op", *kind.__struct_fields__}:
        raise ConfigError(
            f"op {number} ({name}): {_unknown('parameter', key, kind.__struct_fields__)}"
        )
    return _converted(entry, kind, f"op {number} ({name})")


def _checked(op: Op) -> Op:
    """Return the op with its parameters in canonical types: 1 becomes 1.0 where a float belongs."""
    if not isinstance(op, Op):
        raise ConfigError(f"a pipeline holds ops, not {op!r}; see headrace.ops for all of them")
    return _converted(msgspec.to_builtins(op), type(op), f"op {op.name}")


def _converted(entry: object, kind: type[Op], what: str) -> Op:
    try:
        return msgspec.convert(entry, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}") from error


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    return f"unknown {what} {name!r}; {hint}"


def _check_order(ops: tuple[Op, ...]) -> None:
    batch_op: Op | None = None
    for op in ops:
        if isinstance(op, BatchOp):
            batch_op = op
        elif batch_op is not None:
            raise ConfigError(
                f"op {op.name} works on samples but follows {batch_op.name}, which joins a batch; "
                "put it before"
            )


def _check_allowed(ops: tuple[Op, ...], allowed: tuple[str, ...]) -> None:
    for number, op in enumerate(ops):
        if isinstance(op, UserOp) and not op.is_allowed(allowed):
            listed = ", ".join(allowed) or "none"
            raise ConfigError(
                f"op {number}: user op {op.path!r} is not allowed here (allowed: {listed}); "
                f"start this host with it allow-listed, or run it on the trainer"
            )
