"""Ops for pipelines: ``from headrace import ops``."""

from headrace.transform.ops import (
    CenterCrop,
    ColorJitter,
    DecodeImage,
    DecodeText,
    DecodeVideo,
    Normalize,
    Pack,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Segments,
    ToFloat,
    Tokenize,
    UserOp,
)

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "DecodeImage",
    "DecodeText",
    "DecodeVideo",
    "Normalize",
    "Pack",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "Segments",
    "ToFloat",
    "Tokenize",
    "UserOp",
]
