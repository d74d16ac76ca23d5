"""Sizes of the training state that benchmarks save and load."""

from __future__ import annotations

import msgspec

SMALL = ("attention_norm", "ffn_norm", "q_norm", "k_norm", "qkv_bias", "o_bias")
"""Vectors of a layer, beside its matrices; each has ``width`` numbers."""

LARGE = ("qkv", "o", "up", "gate", "down")


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a training state."""

    layers: int
    width: int
    """Numbers of a row of every tensor."""

    rows: int
    """Of each of a layer's matrices."""

    vocabulary: int
    """Rows of the shared embedding."""

    @property
    def embedding_bytes(self) -> int:
        """Of the tensor that every rank holds."""
        return self.vocabulary * self.width * 2

    @property
    def tensors(self) -> int:
        """Of the model, without the optimizer's."""
        return 1 + self.layers * (len(SMALL) + len(LARGE))
