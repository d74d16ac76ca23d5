"""The option of commands that read an index which may lie apart from its dataset."""

from __future__ import annotations

from contextlib import closing

import click

from headrace.dataset.index import Index
from headrace.storage.opening import open_storage

index_option = click.option(
    "--index", "place", metavar="FOLDER", help="Where `headrace index --out` put the index."
)


def load_index(url: str, place: str | None) -> Index:
    """Return a dataset's index, from another folder if one is given.

    Raises:
        NotFoundError: there is none; says how to build it.
    """
    with closing(open_storage(place or url)) as storage:
        return Index.load(storage, of="" if place is None else url)
