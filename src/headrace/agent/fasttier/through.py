"""Reads a sample through the fast tier: from there when it is kept, else from where it lies.

Workers and the threads that answer with raw bytes use this. The agent decided before what is
kept and what is to be kept; nothing is decided here. Trouble with the fast tier is told and
costs a read of the original, never a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from headrace.agent.arena import Extent
from headrace.agent.fasttier.file import FastFiles
from headrace.agent.fasttier.records import Fields, Kept, Stored, read_record, write_record
from headrace.dataset.location import SampleLocation
from headrace.prepare.sample import Preparer


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What the fast tier has to do with one read."""

    kept: Kept | None = None
    """Read the sample there."""

    slot: tuple[Extent, ...] = ()
    """Or leave a copy there, once it was read from where it lies."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an errand."""

    hit: bool = False
    """The bytes came from the fast tier."""

    stored: Stored | None = None
    """The copy that was left."""

    trouble: str = ""
    """Why the fast tier could not be read or written; it is not to be used any more."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A sample's encoded fields, and how they came."""

    fields: Fields
    passage: Passage


def fetch(
    preparer: Preparer, location: SampleLocation, errand: Errand, files: FastFiles
) -> Fetched:
    """Return a sample's encoded fields; ``files`` are the fast tier's.

    A copy is as good as the original only as long as that is what was indexed, so its size and
    version are asked for every time, as when it is read itself.

    Raises:
        StaleIndexError: the original changed since it was indexed.
        StorageError: the original is needed and cannot be read.
    """
    trouble = ""
    if errand.kept is not None:
        try:
            fields = read_record(files, errand.kept)
        except OSError as error:
            fields, trouble = None, f"reading it failed: {error}"
        if fields is not None:
            preparer.require_unchanged(location)
            return Fetched(fields, Passage(hit=True))
    fields = preparer.raw(location)
    if not errand.slot or trouble:
        return Fetched(fields, Passage(trouble=trouble))
    return Fetched(fields, leave_copy(files, errand.slot, fields))


def leave_copy(files: FastFiles, slot: tuple[Extent, ...], fields: Fields) -> Passage:
    """Keep a sample's fields in a slot, if they fit."""
    try:
        return Passage(stored=write_record(files, slot, fields))
    except OSError as error:
        return Passage(trouble=f"writing to it failed: {error}")
