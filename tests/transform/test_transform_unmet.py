"""Fields that ops name and no sample can have."""

from __future__ import annotations

import pytest

from headrace import ops
from headrace.transform.op import Op
from headrace.transform.unmet import unmet_fields


@pytest.mark.parametrize(
    ("pipeline", "present", "unmet"),
    [
        ([ops.DecodeImage(), ops.DecodeVideo(4), ops.CenterCrop(8)], ["image"], []),
        (
            [ops.CenterCrop(8, fields=("imge",)), ops.ToFloat(fields=("imge",))],
            ["image"],
            ["imge"] * 2,
        ),
        ([ops.CenterCrop(8, fields=("image.1",))], ["image.0"], ["image.1"]),
        ([ops.CenterCrop(8, fields=("photo",))], ["photo.0", "photo.1"], []),
        ([ops.DecodeAudio(), ops.LogMel(8000), ops.Pad(fields=("mel",))], ["audio"], []),
        ([ops.LogMel(8000, fields=("speech",)), ops.Pad(fields=("mel",))], [], ["speech", "mel"]),
    ],
)
def test_fields_are_met_that_samples_have_or_ops_before_make(
    pipeline: list[Op], present: list[str], unmet: list[str]
) -> None:
    assert [field for _, field in unmet_fields(pipeline, present)] == unmet
