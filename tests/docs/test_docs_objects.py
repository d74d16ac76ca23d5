"""Every block of the page about object stores runs as printed."""

from __future__ import annotations

import pytest
from docs_reader import REPOSITORY, Reader


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_about_object_stores_runs_as_printed(
    reader: Reader, capfd: pytest.CaptureFixture[str]
) -> None:
    reader.follow((REPOSITORY / "docs" / "objects.md").read_text())
    said = capfd.readouterr().out
    alone, together = said.split("made by agents")[1:]
    assert alone.startswith(" 0, sent raw 0,")
    assert not together.startswith(" 0, sent raw 0,"), "the agent had a part in it"
    assert "['a.txt', 'b.txt']" in said
