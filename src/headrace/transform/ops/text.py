"""Text: bytes to ``str``, ``str`` to token ids."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from headrace.core.digest import name_digest
from headrace.core.draws import Draws
from headrace.core.errors import ConfigError, CorruptSampleError, NotFoundError
from headrace.core.record import Value
from headrace.transform import cost
from headrace.transform.op import ValueOp, encoded_bytes
from headrace.transform.spec import Array, Encoded, Spec

_BYTES_PER_TOKEN = 4.0
_TOKENIZERS_KEPT = 8


class DecodeText(ValueOp, frozen=True):
    """Decode bytes to text; text stays as it is."""

    encoding: str = "utf-8"
    errors: Literal["strict", "replace", "ignore"] = "strict"
    """``strict`` counts a sample with undecodable bytes as corrupt."""

    fields: tuple[str, ...] = ("text",)

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
        except LookupError as error:
            raise ConfigError(
                f"decode_text.encoding={self.encoding!r} is not known to Python; try 'utf-8'"
            ) from error

    def apply(self, value: Value, draws: Draws) -> Value:  # noqa: ARG002 - nothing random
        """Return the text.

        Raises:
            CorruptSampleError: ``errors`` is ``strict`` and the bytes are not in the encoding.
        """
        if isinstance(value, str):
            return value
        try:
            return encoded_bytes(value, self).decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            raise CorruptSampleError(
                f"the text is not {self.encoding}: {error.reason} at byte {error.start}; "
                "set decode_text.errors='replace' to keep such texts"
            ) from error

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.TEXT * spec.nbytes


class Tokenize(ValueOp, frozen=True):
    """Turn text into token ids, ``int32 [N]``, in the field ``into`` instead of the text.

    The whole ``tokenizer.json`` travels inside the pipeline, so that no host can use another
    one and agents need no copy of it. Make it with ``Tokenize.from_file``.
    """

    tokenizer: str
    """Content of a ``tokenizer.json`` of the ``tokenizers`` library."""

    special_tokens: bool = True
    """Add the tokens that the tokenizer's template puts around a text."""

    max_tokens: int | None = None
    """Longest result; what is longer is cut off. None keeps all."""

    into: str = "tokens"
    fields: tuple[str, ...] = ("text",)

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"tokenize.max_tokens={self.max_tokens} must be at least 1, or None")
        try:
            msgspec.json.decode(self.tokenizer, type=dict[str, object])
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ConfigError(
                f"tokenize.tokenizer is not the content of a tokenizer.json ({error}); "
                "use Tokenize.from_file(PATH)"
            ) from error

    @classmethod
    def from_file(
        cls, path: str | Path, *, special_tokens: bool = True, max_tokens: int | None = None
    ) -> Tokenize:
        """Return the op for the ``tokenizer.json`` at ``path``.

        Raises:
            NotFoundError: the file cannot be read.
        """
        try:
            content = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise NotFoundError(f"tokenizer {str(path)!r} cannot be read: {error}") from error
        return cls(content, special_tokens=special_tokens, max_tokens=max_tokens)

    def __repr__(self) -> str:
        """Name the tokenizer by its digest; its content has megabytes."""
        digest = name_digest(self.tokenizer.encode())
        return f"Tokenize({digest}, special_tokens={self.special_tokens}, into={self.into!r})"

    def target(self, field: str) -> str:  # noqa: ARG002 - all texts become one field
        """Return ``into``."""
        return self.into

    def apply(self, value: Value, draws: Draws) -> Value:  # noqa: ARG002 - nothing random
        """Return the ids, ``int32 [N]``.

        Raises:
            ConfigError: the value is not text, or the ``tokenizers`` library is not there.
        """
        if not isinstance(value, str):
            raise ConfigError(
                f"tokenize takes text, not {type(value).__name__}; put decode_text before it"
            )
        encoding = _tokenizer(self.tokenizer).encode(value, add_special_tokens=self.special_tokens)
        return np.asarray(encoding.ids[: self.max_tokens], np.int32)

    def infer(self, spec: Spec) -> Spec:
        """Return about one id for four bytes of text."""
        tokens = (spec.nbytes if isinstance(spec, Encoded) else 0.0) / _BYTES_PER_TOKEN
        return Array(dtype="int32", shape=(min(tokens, self.max_tokens or tokens),))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.TOKENIZE * spec.nbytes


@lru_cache(maxsize=_TOKENIZERS_KEPT)
def _tokenizer(content: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigError(
            "tokenize needs the tokenizers library: pip install 'headrace[text]'"
        ) from error
    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:
        raise ConfigError(f"tokenize.tokenizer is not a tokenizer.json: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
