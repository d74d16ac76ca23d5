"""Finds the datasets that a loader was given, and the index of each."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from headrace.client.config import Indexes
from headrace.client.remote import fetch_index
from headrace.core.errors import (
    AgentUnavailableError,
    CallerError,
    ConfigError,
    DeadlineError,
    HeadraceError,
    NotFoundError,
    RefusedError,
    RemoteError,
)
from headrace.core.job import SourceSpec
from headrace.dataset.build import build_index
from headrace.dataset.describe import compare_files
from headrace.dataset.index import DEFAULT_PATH, Index, index_command
from headrace.dataset.listing import list_dataset
from headrace.dataset.reader import SampleReader
from headrace.dataset.side import SideFiles
from headrace.dataset.splits import splits_complaint
from headrace.prepare.job import OpenSource
from headrace.report.printable import printable
from headrace.report.units import counted
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.wire.endpoint import Endpoint

logger = logging.getLogger("headrace.client")

INDEX_AT_ONCE = 20_000
"""Files that a dataset without an index may have for a loader to index it by itself: seconds."""

INDEX_REMOTE_AT_ONCE = 2_000
"""The same in a remote store, where each file costs round trips."""

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
    if isinstance(urls, Mapping):
        weights = {_text_of(url): _weight_of(url, weight) for url, weight in urls.items()}
        return dict(_checked(list(weights)), **weights)
    if isinstance(urls, str | bytes | os.PathLike) or not isinstance(urls, Iterable):
        urls = [urls]
    return _checked([_text_of(url) for url in urls])


def indexes_of(index: Indexes, urls: Collection[str]) -> dict[str, str]:
    """Return where the index of each dataset lies; '' is where its files are.

    Raises:
        ConfigError: a folder is given for several datasets, or for one that the loader has not.
    """
    if index is None:
        return dict.fromkeys(urls, "")
    if not isinstance(index, Mapping):
        if len(urls) > 1:
            raise ConfigError(
                f"index={str(index)!r} is one folder for {len(urls)} datasets; give a mapping from "
                "each dataset to the folder of its index"
            )
        index = dict.fromkeys(urls, index)
    places = {_text_of(url): _absolute(_text_of(place)) for url, place in index.items()}
    for url in places.keys() - set(urls):
        raise ConfigError(f"index= names {url}, which is none of the datasets: {', '.join(urls)}")
    return {url: places.get(url, "") for url in urls}


def find_source(
    url: str, weight: float | None, agents: Sequence[Endpoint] = (), *, index: str = ""
) -> FoundSource:
    """Open a dataset; one that is small and has no index yet is indexed now.

    Args:
        url: The dataset.
        weight: Its share in the mixture; None: in proportion to its samples.
        agents: Who is asked for the index if this host does not see the files.
        index: Folder or URL of the index; empty: where the files are.

    Raises:
        NotFoundError: there is no such dataset, or no index and too many files to make one.
        StorageError: this host's storage fails, and there are no agents to be asked.
        AgentUnavailableError: this host does not see the files, and no agent answers.
    """
    url = _absolute(url)
    source = _open_anywhere(url, index, agents) if agents else _open_here(url, index)
    if odd := splits_complaint(url, source.index.classes):
        logger.warning("%s", printable(odd))
    spec = SourceSpec(
        url=url,
        index_digest=source.index.digest,
        samples=len(source.index),
        weight=float(len(source.index)) if weight is None else weight,
        index=index,
    )
    return FoundSource(spec, source)


def _open_anywhere(url: str, index: str, agents: Sequence[Endpoint]) -> OpenSource:
    """Open a dataset here if this host sees it, else with an index and bytes from agents."""
    try:
        storage = open_storage(url)
    except (CallerError, RemoteError) as error:
        return _open_there(url, index, agents, error)
    try:
        return _indexed(storage, url, index)
    except RemoteError as error:
        return _open_there(url, index, agents, error)


def _open_here(url: str, index: str) -> OpenSource:
    return _indexed(open_storage(url), url, index)


def _indexed(storage: Storage, url: str, place: str) -> OpenSource:
    with ExitStack() as opened:
        opened.callback(storage.close)
        beside = open_storage(place) if place else None
        if beside is not None:
            opened.callback(beside.close)
        index = Index.load(beside, of=url) if beside else _load_or_build(storage)
        opened.pop_all()
    reader = SampleReader(storage, side=SideFiles(beside or storage))
    return OpenSource(index=index, reader=reader, storage=storage, beside=beside)


def _open_there(url: str, place: str, agents: Sequence[Endpoint], why: HeadraceError) -> OpenSource:
    try:
        index = fetch_index(place or url, agents)
    except RefusedError as error:
        raise NotFoundError(
            f"{url} is not seen by this host ({why}), and no agent serves it: {error}"
        ) from error
    except (AgentUnavailableError, DeadlineError) as error:
        raise AgentUnavailableError(
            f"{url} is not seen by this host ({why}), and no agent can be asked: {error}"
        ) from error
    logger.warning("%s is not seen by this host (%s): all bytes come from agents", url, why)
    return OpenSource(index=index, reader=None)


def _text_of(url: object) -> str:
    text = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{url!r} is not a dataset; give its path or URL")
    return text


def _weight_of(url: object, weight: object) -> float:
    if not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise ConfigError(f"{url}: weight {weight!r} must be a positive number")
    return float(weight)


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
        index = Index.load(storage)
    except NotFoundError:
        if _has_many_files(storage):
            raise
    else:
        _warn_of_new_files(index, storage)
        return index
    logger.warning(
        "%s has no index yet: reading the headers of its files once, to be kept there in %s",
        storage.url,
        DEFAULT_PATH,
    )
    index = build_index(storage)
    try:
        index.save(storage)
    except HeadraceError as error:
        logger.warning("the index of %s is not kept: %s", storage.url, error)
    return index


def _warn_of_new_files(index: Index, storage: Storage) -> None:
    """Look again into a folder of this host that is small enough to be indexed at once.

    A loader indexes such by itself, so nobody may know that there is an index.
    """
    if not isinstance(storage, LocalStorage) or len(index.file_starts()) > INDEX_AT_ONCE:
        return
    new = compare_files(index, list_dataset(storage)).new
    if new:
        logger.warning(
            "%s: %s not in the index and left out (%s); run `%s`",
            storage.url,
            counted(len(new), "file"),
            printable(", ".join([*new[:3], "…"][: len(new)])),
            index_command(storage.url),
        )


def _has_many_files(storage: Storage) -> bool:
    most = INDEX_AT_ONCE if isinstance(storage, LocalStorage) else INDEX_REMOTE_AT_ONCE
    return sum(1 for _ in itertools.islice(storage.list(hidden=False), most + 1)) > most
