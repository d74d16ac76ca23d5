"""All pages can be found, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from docs_reader import REPOSITORY

PAGES = [
    *(REPOSITORY / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *(page for folder in ("docs", "bench") for page in (REPOSITORY / folder).rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the file and the anchor of each link of a page that leads to no other site."""
    found = [link.partition("#") for link in LINK.findall(page.read_text()) if "://" not in link]
    return [((page.parent / file).resolve() if file else page, part) for file, _, part in found]


def anchors(page: Path) -> set[str]:
    """Return what headings are called in addresses."""
    shown = (
        re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", text) for text in HEADING.findall(page.read_text())
    )
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in shown}


def test_links_lead_to_files_and_headings_that_are_there() -> None:
    for page in PAGES:
        for file, part in links(page):
            assert file.exists(), f"{page}: {file}"
            assert not part or part in anchors(file), f"{page}: {file}#{part}"


def test_the_list_of_pages_names_every_page_and_every_example() -> None:
    index = REPOSITORY / "docs/README.md"
    named = {file for file, _ in links(index)} | {index}
    pages = set((REPOSITORY / "docs").rglob("*.md"))
    assert pages | set((REPOSITORY / "examples").glob("*.py")) <= named
