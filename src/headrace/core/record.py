"""What one sample is made of while it travels: named fields with plain values."""

from __future__ import annotations

from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[np.generic]

Value: TypeAlias = "AnyArray | bytes | str | int | float | BinaryIO"
"""An array; encoded bytes; text; a number; or, before decoding only, an open range of a file."""

Record: TypeAlias = dict[str, Value]
"""Field name → value. Canonical: ``image``, ``video``, ``audio``, ``text``, ``label``, ``json``."""
