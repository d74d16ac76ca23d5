"""The ops that a pipeline may hold."""

from headrace.transform.ops.audio import DecodeAudio
from headrace.transform.ops.color import ColorJitter
from headrace.transform.ops.geometry import (
    CenterCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)
from headrace.transform.ops.image import DecodeImage
from headrace.transform.ops.mel import LogMel
from headrace.transform.ops.pack import Pack
from headrace.transform.ops.pad import Pad
from headrace.transform.ops.ragged import Ragged
from headrace.transform.ops.segments import Segments
from headrace.transform.ops.tensor import Normalize, ToFloat
from headrace.transform.ops.text import DecodeText, Tokenize
from headrace.transform.ops.truncate import Truncate
from headrace.transform.ops.user import UserOp
from headrace.transform.ops.video import DecodeVideo

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "DecodeAudio",
    "DecodeImage",
    "DecodeText",
    "DecodeVideo",
    "LogMel",
    "Normalize",
    "Pack",
    "Pad",
    "Ragged",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "Segments",
    "ToFloat",
    "Tokenize",
    "Truncate",
    "UserOp",
]
