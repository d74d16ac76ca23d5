"""Sound becomes the same bits on CPUs of other families, which take other code paths."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
from numpy._core import _multiarray_umath as built

from headrace import ops
from headrace.core.draws import Draws, SampleKey
from headrace.transform.codecs.resample import Resampler

OLDEST = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(
        name for name in built.__cpu_dispatch__ if built.__cpu_features__[name]
    ),
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
}
"""What makes NumPy, BLAS and the library of C compute as on a CPU of 2010."""


def digests() -> list[str]:
    noise = (np.random.default_rng(1).random((2, 44_100)) - 0.5).astype(np.float32)
    made = [Resampler(44_100, rate).resample(noise, 0, 0, rate) for rate in (16_000, 48_000)]
    for form in ("whisper", "ln", "db"):
        draws = Draws(SampleKey(0, 0, 0), 0)
        made.append(ops.LogMel(16_000, form=form).apply(made[0], draws))  # type: ignore[arg-type]
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in made]


def test_an_older_cpu_makes_the_same_bits() -> None:
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, **OLDEST},
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == digests()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()))
