"""A clip that is really a playlist cannot make the decoder open what it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import Pipeline, ops
from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.transform.program import Program


def test_a_playlist_named_mp4_is_corrupt_and_opens_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.ts"
    secret.write_bytes(b"\x47" * 188 * 20)
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{secret}\n#EXT-X-ENDLIST\n"
    program = Program(Pipeline([ops.DecodeVideo(2)]))
    with pytest.raises(CorruptSampleError, match=r"(?i)invalid data|whitelist"):
        program.run({"video": playlist.encode()}, SampleKey(0, 0, 0), start=0, stop=1)
