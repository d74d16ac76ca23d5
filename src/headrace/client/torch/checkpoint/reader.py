"""The reader that ``torch.distributed.checkpoint.load`` takes."""

from __future__ import annotations

import logging
import os
import pickle
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from torch.distributed.checkpoint._extension import ExtensionRegistry
from torch.distributed.checkpoint.filesystem import _StorageReaderTransforms
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from headrace.checkpoint.dcp import METADATA
from headrace.client.checkpoint.agentranges import agents_of
from headrace.client.checkpoint.bundles import Claims, Shared, find_shared
from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.fetch import RangeFetcher
from headrace.client.checkpoint.sharing import ShareLimits
from headrace.client.torch.checkpoint.hostshare import HostShare
from headrace.client.torch.checkpoint.loading import Loading, Want
from headrace.client.torch.checkpoint.metadata import parse_metadata
from headrace.client.torch.checkpoint.opened import OpenCheckpoint
from headrace.client.torch.checkpoint.pieces import Pieces
from headrace.client.torch.checkpoint.places import can_open
from headrace.client.torch.checkpoint.sealed import SealedItems
from headrace.client.torch.checkpoint.statistics import ReaderStatistics
from headrace.core.collector import paused_collector
from headrace.core.errors import CorruptDataError, HeadraceError, NotFoundError

_log = logging.getLogger("headrace.checkpoint")


_SHARING = ShareLimits()


class CheckpointReader(StorageReader):
    """Reads a checkpoint of ``torch.distributed.checkpoint`` from any store; resharding works.

    ``dcp.load(state_dict, storage_reader=CheckpointReader("hdfs:///runs/7/step-1000"))``. Few,
    large requests in parallel take the place of one or more for each tensor. Nothing that a
    checkpoint holds is executed, unless ``trusted``. For one load at a time.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        limits: FetchLimits | None = None,
        sharing: ShareLimits | None = _SHARING,
        agents: Sequence[str] | str = (),
        token: str | None = None,
        ca_file: str | None = None,
        trusted: bool = False,
        extensions: ExtensionRegistry | None = None,
        trace: str | os.PathLike[str] | bool = True,
    ) -> None:
        """Prepare to read; the store is asked when a load begins.

        Args:
            url: The checkpoint's folder.
            limits: How its files are read.
            sharing: How ranks of one host share what several of them want, through memory; None:
                each reads for itself.
            agents: Addresses of agents to read through, or path or URL of a TOML file that lists
                them, as of :class:`headrace.Loader`; what they cannot serve is read directly.
            token: The agents' token; None reads the environment variable ``HEADRACE_TOKEN``.
            ca_file: Certificates to trust for ``https`` agents, PEM.
            trusted: Load also objects whose pickles may run code when they are loaded; else
                they are refused. Tensors never run code.
            extensions: Those by which pieces were transformed when they were saved, as for
                torch's ``FileSystemReader``; None: those that torch knows.
            trace: Where loads are recorded, as of :class:`headrace.Loader`.
        """
        super().__init__()
        self._url = os.fspath(url)
        self._limits = limits or FetchLimits()
        self._sharing = sharing
        self._agents = agents_of(agents, token=token, ca_file=ca_file)
        self._trusted = trusted
        self._trace = trace
        self._transforms = _StorageReaderTransforms(extensions)
        self._checkpoint: OpenCheckpoint | None = None
        self._metadata = Metadata({})
        self._pieces = Pieces({})
        self._load_id = str(uuid.uuid4())
        self._items = SealedItems()
        self._metadata_error: HeadraceError | None = None
        self._statistics = ReaderStatistics()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is open: another process opens it anew."""
        return {**self.__dict__, "_checkpoint": None}

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint's folder."""
        return self._url

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Tell whether this is a URL or path of a store that can be read here."""
        return can_open(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Forget what was read; go to another checkpoint if one is named (a URL or path)."""
        self.close()
        if checkpoint_id:
            self._url = os.fspath(checkpoint_id)
        self._load_id = str(uuid.uuid4())

    def read_metadata(
        self,
        *_: Any,
        rank: int | None = None,
        **kwargs: Any,  # noqa: ARG002 - torch looks for the name and gives more in time
    ) -> Metadata:
        """Return the checkpoint's metadata; nothing of it is executed.

        Args:
            rank: For the metadata of a rank that was saved without collectives; torch asks for
                it after the global one could not be read.
            kwargs: Not looked at.

        Raises:
            NotFoundError: there is no such checkpoint, or it is not complete.
            CorruptDataError: the metadata is damaged or hostile.
            StorageError: it cannot be read.
        """
        if rank is not None and self._metadata_error is not None:
            raise self._metadata_error  # some ranks would go on by other metadata than others
        name = METADATA if rank is None else f"__{rank}{METADATA}"
        try:
            metadata = self._parse(name) if rank is not None else self._parse_once(name)
        except NotFoundError:
            raise
        except HeadraceError as error:
            self._metadata_error = error
            raise
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self._load_id
        return metadata

    def set_up_storage_reader(
        self,
        metadata: Metadata,
        is_coordinator: bool,  # noqa: ARG002 - all ranks do the same
        *_: Any,
        **kwargs: Any,  # noqa: ARG002 - torch looks for the name and gives more in time
    ) -> None:
        """Take note of where pieces lie."""
        self._metadata = metadata
        pieces = metadata.storage_data
        self._pieces = pieces if isinstance(pieces, Pieces) else Pieces(pieces)

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan with what this rank wants, if it can share it with others."""
        self._items = SealedItems(plan.items)
        folder = self._opened().folder
        claims = None if folder is None else self._claims(folder.host, plan.items)
        items = cast("list[ReadItem]", self._items)
        return replace(plan, items=items, storage_data=claims)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans with what ranks share on each host."""
        shared = find_shared([plan.storage_data for plan in plans], self._pieces.lengths)
        return [replace(plan, storage_data=one) for plan, one in zip(plans, shared, strict=True)]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Load all items of the plan; done when this returns.

        Raises:
            CorruptDataError: files are not what the metadata says, or objects may run code.
            StorageError: something could not be read.
        """
        begin = time.monotonic()
        with paused_collector():
            wants = [self._want(item) for item in self._items.returned(plan.items)]
        fetcher = RangeFetcher(self._opened().source, self._limits, log=self._opened().log)
        loading = Loading(
            planner,
            fetcher,
            self._transforms,
            request_bytes=self._limits.request_bytes,
            trusted=self._trusted,
        )
        try:
            shared_bytes = self._load(loading, wants, plan.storage_data)
        finally:
            self._opened().leave()
        self._statistics = ReaderStatistics(
            items=len(wants),
            load_s=time.monotonic() - begin,
            shared_bytes=shared_bytes,
            agent_bytes=self._opened().agent_bytes(),
            fetch=fetcher.statistics(),
        )
        _log.info("%s: %s", self._url, self._statistics)
        self._opened().log.read(begin, *_told(self._statistics))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def statistics(self) -> ReaderStatistics:
        """Return what this rank's last load took."""
        return self._statistics

    def close(self) -> None:
        """Let go of the store; another load opens it again."""
        checkpoint, self._checkpoint = self._checkpoint, None
        if checkpoint is not None:
            checkpoint.close()
        self._pieces = Pieces({})
        self._metadata_error = None

    def _opened(self) -> OpenCheckpoint:
        if self._checkpoint is None:
            self._checkpoint = OpenCheckpoint(self._url, self._agents, self._sharing, self._trace)
        return self._checkpoint

    def _parse(self, name: str) -> Metadata:
        begin = time.monotonic()
        parsed = parse_metadata(self._opened().read_metadata(name), f"{self._url}/{name}")
        self._opened().log.called("read metadata", begin)
        return parsed

    def _parse_once(self, name: str) -> Metadata:
        """Return metadata that one rank of the host reads and parses: 20 µs for each piece.

        The others get a pickle that this one made, from a folder that only this user can write to.
        """
        folder = self._opened().enter_shared(name)
        if folder is None:
            return self._parse(name)
        parsed: list[Metadata] = []

        def make() -> bytes:
            parsed.append(self._parse(name))
            return pickle.dumps(parsed[0])

        data = folder.make_once("metadata", make)
        if parsed:
            return parsed[0]
        with paused_collector():
            metadata: Metadata = pickle.loads(data)
        return metadata

    def _load(self, loading: Loading, wants: Sequence[Want], shared: Shared | None) -> int:
        """Load everything and return how much of it others had read [bytes]."""
        folder = self._opened().folder
        if shared is None or folder is None or self._sharing is None:
            loading.load(wants)
            return 0
        common = set(shared.pieces.tolist())
        private: list[Want] = []
        by_piece: dict[int, list[Want]] = {}
        for want in wants:
            if want.number in common:
                by_piece.setdefault(want.number, []).append(want)
            else:
                private.append(want)
        ranges = {number: self._pieces.place(number) for number in common}
        share = HostShare(folder, shared, ranges, self._sharing)
        share.load(loading, private, by_piece)
        return share.taken_bytes

    def _claims(self, host: str, items: Sequence[ReadItem]) -> Claims:
        wanted: Counter[int] = Counter()
        for item in items:
            want = self._want(item)
            kind = self._metadata.state_dict_metadata[item.storage_index.fqn]
            itemsize = (
                kind.properties.dtype.itemsize if isinstance(kind, TensorStorageMetadata) else 0
            )
            wanted[want.number] += want.expected_bytes(itemsize)
        return Claims(
            host, np.array(list(wanted), np.int64), np.array(list(wanted.values()), np.int64)
        )

    def _want(self, item: ReadItem) -> Want:
        number = self._pieces.number(item.storage_index)
        if number is None:
            raise CorruptDataError(
                f"{self._url}/.metadata does not say where {item.storage_index.fqn!r} lies; it is "
                "damaged, or not all ranks had saved when it was written"
            )
        return Want(item, number, self._pieces.info(number))


def _told(loaded: ReaderStatistics) -> tuple[int, dict[str, int]]:
    """Return what the trace says of a load: its bytes, and numbers besides."""
    counts = {
        "items": loaded.items,
        "requests": loaded.fetch.requests,
        "retries": loaded.fetch.retries,
        "bytes_storage": loaded.fetch.read_bytes,
        "bytes_shared": loaded.shared_bytes,
        "bytes_agents": loaded.agent_bytes,
    }
    return loaded.fetch.wanted_bytes + loaded.shared_bytes, counts
