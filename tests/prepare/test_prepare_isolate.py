"""A sample decoded in a process of its own is the same sample, or says why there is none."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.dataset.build import build_index
from headrace.dataset.location import SampleLocation
from headrace.prepare.isolate import IsolationLimits, run_isolated
from headrace.prepare.sample import finish_raw
from headrace.storage.opening import open_storage
from headrace.transform import ops
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program

PIPELINE = Pipeline((ops.DecodeImage(), ops.RandomResizedCrop(16), ops.ToFloat()))
KEY = SampleKey(seed=7, epoch=1, sample=0)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> SampleLocation:
    root = tmp_path_factory.mktemp("one")
    (root / "a.jpg").write_bytes(picture())
    return build_index(open_storage(str(root))).location(0)


def picture() -> bytes:
    encoded = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(encoded, "jpeg")
    return encoded.getvalue()


def test_the_bytes_are_those_of_this_process(location: SampleLocation) -> None:
    fields = {"image": picture()}
    here = finish_raw(Program(PIPELINE), location, fields, KEY, stop=3).record
    there = run_isolated(PIPELINE, location, fields, KEY, stop=3)
    assert there.keys() == here.keys()
    np.testing.assert_array_equal(there["image"], here["image"])


def test_what_cannot_be_decoded_is_corrupt_and_says_why(location: SampleLocation) -> None:
    with pytest.raises(CorruptSampleError, match=r"a\.jpg|image"):
        run_isolated(PIPELINE, location, {"image": picture()[:300]}, KEY, stop=3)


def test_a_process_that_runs_past_its_limit_is_ended(location: SampleLocation) -> None:
    with pytest.raises(CorruptSampleError, match=r"0\.05 s"):
        run_isolated(
            PIPELINE, location, {"image": picture()}, KEY, stop=3,
            limits=IsolationLimits(seconds=0.05),
        )  # fmt: skip
