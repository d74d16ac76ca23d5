"""Finds the datasets that a loader was given, and the index of each."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from headrace.client.remote import fetch_index
from headrace.core.errors import (
    AgentUnavailableError,
    CallerError,
    ConfigError,
    DeadlineError,
    HeadraceError,
    NotFoundError,
    RefusedError,
)
from headrace.core.job import SourceSpec
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.reader import SampleReader
from headrace.prepare.job import OpenSource
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.wire.endpoint import Endpoint

logger = logging.getLogger("headrace.client")

INDEX_AT_ONCE = 20_000
"""Files that a dataset without an index may have for a loader to index it by itself: seconds."""

Urls: TypeAlias = (
    "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | "
    "Mapping[str, float] | Mapping[os.PathLike[str], float]"
)
"""One dataset, several, or each with its weight in the mixture."""


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A dataset as the job names it, and as this host sees it."""

    spec: SourceSpec
    open: OpenSource


def weights_of(urls: Urls) -> dict[str, float | None]:
    """Return each URL and its weight; None where none was given.

    Raises:
        ConfigError: no dataset, one named twice, or a weight that is not positive.
    """
    if isinstance(urls, (str, os.PathLike)):
        urls = [urls]
    if isinstance(urls, Mapping):
        weights = {os.fspath(url): float(weight) for url, weight in urls.items()}
        for url, weight in weights.items():
            if not 0 < weight < float("inf"):
                raise ConfigError(f"{url}: weight {weight:g} must be positive")
        return dict(_checked(list(weights)), **weights)
    return _checked([os.fspath(url) for url in urls])


def find_source(url: str, weight: float | None, agents: Sequence[Endpoint] = ()) -> FoundSource:
    """Open a dataset; one that is small and has no index yet is indexed now.

    Args:
        url: The dataset.
        weight: Its share in the mixture; None: in proportion to its samples.
        agents: Who is asked for the index if this host does not see the files.

    Raises:
        NotFoundError: there is no such dataset, or no index and too many files to make one.
    """
    url = _absolute(url)
    source = _open_here(url) if _is_visible(url, agents) else _open_there(url, agents)
    spec = SourceSpec(
        url=url,
        index_digest=source.index.digest,
        samples=len(source.index),
        weight=float(len(source.index)) if weight is None else weight,
    )
    return FoundSource(spec, source)


def _is_visible(url: str, agents: Sequence[Endpoint]) -> bool:
    if not agents:
        return True
    try:
        open_storage(url).close()
    except CallerError:
        return False
    return True


def _open_here(url: str) -> OpenSource:
    storage = open_storage(url)
    return OpenSource(index=_load_or_build(storage), reader=SampleReader(storage))


def _open_there(url: str, agents: Sequence[Endpoint]) -> OpenSource:
    try:
        index = fetch_index(url, agents)
    except (RefusedError, AgentUnavailableError, DeadlineError) as error:
        raise NotFoundError(
            f"{url} is not on this host, and no agent serves it: {error}"
        ) from error
    logger.warning("%s is not on this host: all bytes come from agents", url)
    return OpenSource(index=index, reader=None)


def _checked(urls: list[str]) -> dict[str, float | None]:
    if not urls:
        raise ConfigError("a loader needs at least one dataset; give a path or URL")
    places = [_absolute(url) for url in urls]
    for url, place in zip(urls, places, strict=True):
        if places.count(place) > 1:
            raise ConfigError(f"{url} is named twice; give it once, with a weight")
    return dict.fromkeys(urls)


def _absolute(url: str) -> str:
    """Return a plain path in full: an agent has another working directory."""
    return (
        url if "://" in url or url.startswith("file:") else str(Path(url).expanduser().absolute())
    )


def _load_or_build(storage: Storage) -> Index:
    try:
        return Index.load(storage)
    except NotFoundError:
        if not isinstance(storage, LocalStorage) or _has_many_files(storage):
            raise
    logger.warning("%s has no index yet: reading the headers of its files once", storage.url)
    index = build_index(storage)
    try:
        index.save(storage)
    except HeadraceError as error:
        logger.warning("the index of %s is not kept: %s", storage.url, error)
    return index


def _has_many_files(storage: Storage) -> bool:
    return sum(1 for _ in itertools.islice(storage.list(), INDEX_AT_ONCE + 1)) > INDEX_AT_ONCE
