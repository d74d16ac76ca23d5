"""Asks an object store through obstore: bounded, repeated through an outage, translated."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import obstore.exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from headrace.core.backoff import Backoff
from headrace.core.errors import ConfigError, HeadraceError, StorageError
from headrace.storage.address import masked
from headrace.storage.objects.address import Kind, ObjectsAddress
from headrace.storage.objects.config import ObjectsConfig
from headrace.storage.objects.failure import Failure, Fault, is_panic, judge
from headrace.storage.objects.profile import s3_settings

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, RetryConfig, S3Config

log = logging.getLogger("headrace.storage")

T = TypeVar("T")

Objects = S3Store | GCSStore | AzureStore

NATIVE_ERRORS = (obstore.exceptions.BaseError, OSError, ValueError, RuntimeError)
"""What obstore raises."""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 3.0

WRITE_RETRIES = 20
"""Times that obstore repeats one request of an upload: begun anew, it would cost all of it."""

FIRST_CONTACT_S = 2.0
"""So long a store is asked again that never answered: its address may be wrong [s]."""

KEYS_SILENCE_S = 3.0
"""Silence that ends the first request, and that for keys before it: where none are set, a role is
looked for at an address of instances, which leads nowhere on most hosts [s]."""

TOLD_AFTER = 4
"""Attempts that fail before a warning says that a store is waited for: 1.5 s or more."""

_WHOSE = {
    "s3": "Amazon's S3 (AWS_ENDPOINT_URL is not set)",
    "gs": "Google's storage",
    "az": "Azure's storage",
}
"""Where a store is that no endpoint is named for."""

_ENDPOINTS = {"s3": (), "gs": ("GOOGLE_BASE_URL",), "az": ("AZURE_STORAGE_ENDPOINT",)}
"""Variables that name an endpoint to obstore alone."""


class StoreAwayError(StorageError):
    """The store does not answer, or asks for patience; it may be back soon."""


class NoKeysError(StoreAwayError):
    """Nobody gives keys to ask with."""


class OutOfRangeError(StorageError):
    """An object ends before the bytes that were asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestStatistics:
    """What was asked of a store since it was opened."""

    requests: int
    """Reads, descriptions, lists or their pages, and calls that write."""

    repeated: int
    """Of these, asked again because the store failed or throttled."""


class Asking:
    """One bucket. Thread-safe; refuses in a forked child, where obstore would wait for ever."""

    def __init__(self, address: ObjectsAddress, config: ObjectsConfig) -> None:
        """Connect to nobody yet.

        Raises:
            ConfigError: the environment or a profile is not understood.
        """
        self._address = address
        self._config = config
        self._answered = self._is_told = False
        self._requests = self._repeated = 0
        settings: S3Config = s3_settings() if address.kind == "s3" else {}
        self._endpoint = settings.get("endpoint") or _endpoint(address.kind)
        hasty = replace(config, silence_s=min(KEYS_SILENCE_S, config.silence_s))
        self._first = _connect(address, hasty, settings, writes=False)
        self._reading = _connect(address, config, settings, writes=False)
        self._writing = _connect(address, config, settings, writes=True)
        self.lists_in_order = address.kind == "gs" or (
            address.kind == "s3" and "endpoint" not in settings and not _is_express(address)
        )
        """Keys are listed in the order of their bytes."""

    def ask(self, tried: str, call: Callable[[Objects], T]) -> T:
        """Return the answer to a question, asked again for a while if the store fails.

        A store that never answered is given up after ``FIRST_CONTACT_S``. It may be a slow one,
        once it is known that keys are not what is waited for.

        Raises:
            NotFoundError: there is no such object or bucket.
            AccessError: these keys may not.
            OutOfRangeError: bytes beyond the end were asked for.
            StoreAwayError: it failed or throttled for ``outage_s``.
            StorageError: it refuses.
        """
        begin = time.monotonic()
        backoff = Backoff(first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
        store = self._reading if self._answered else self._first
        while True:
            try:
                return self._once(tried, partial(call, store))
            except StoreAwayError as error:
                if store is self._first and not isinstance(error, NoKeysError):
                    store, begin = self._reading, time.monotonic()
                pause_s = backoff.failed()
                patience_s = self._config.outage_s if self._answered else FIRST_CONTACT_S
                if time.monotonic() + pause_s > begin + patience_s:
                    raise
                self._note_outage(backoff.failures, error, patience_s)
            time.sleep(pause_s)

    def tell(self, tried: str, call: Callable[[Objects], T]) -> T:
        """Have something done; obstore repeats the requests that it is made of.

        Raises: as ``ask``.
        """
        return self._once(tried, lambda: call(self._writing))

    def _note_outage(self, attempt: int, error: StoreAwayError, patience_s: float) -> None:
        """Count an attempt that is repeated, and warn once of an outage."""
        self._repeated += 1
        if attempt >= TOLD_AFTER and not self._is_told:
            self._is_told = True
            log.warning("%s; trying again for %g s", error, patience_s)

    def statistics(self) -> RequestStatistics:
        """Return what was asked so far, about: threads do not wait for each other to count."""
        return RequestStatistics(requests=self._requests, repeated=self._repeated)

    def _once(self, tried: str, call: Callable[[], T]) -> T:
        _require_own_process(tried)
        self._requests += 1
        try:
            answer = call()
        except BaseException as error:
            if not (isinstance(error, NATIVE_ERRORS) or is_panic(error)):
                raise
            failure = judge(
                error,
                kind=self._address.kind,
                bucket=self._address.bucket,
                endpoint=self._endpoint,
            )
            raise self._translated(failure, tried) from None  # its text may hold a signature
        self._note_answer()
        return answer

    def _note_answer(self) -> None:
        self._answered = True
        if self._is_told:
            self._is_told = False
            log.warning("%s answers again", self._address.url)

    def _translated(self, failure: Failure, tried: str) -> HeadraceError:
        if failure.fault is Fault.KEYLESS:
            return NoKeysError(f"cannot {tried}: {failure.reason}")
        if failure.fault in (Fault.AWAY, Fault.BUSY):
            return StoreAwayError(f"cannot {tried}: {failure.reason}")
        self._note_answer()
        if failure.fault is Fault.RANGE:
            return OutOfRangeError(f"cannot {tried}: {failure.reason}")
        return failure.error(tried)


def _endpoint(kind: Kind) -> str:
    named = (os.environ.get(name) for name in _ENDPOINTS[kind])
    return next((masked(url) for url in named if url), _WHOSE[kind])


def _is_express(address: ObjectsAddress) -> bool:
    """Tell whether it is a bucket of S3 Express One Zone, which lists in no order."""
    return address.bucket.endswith("--x-s3")


def _connect(
    address: ObjectsAddress, config: ObjectsConfig, settings: S3Config, *, writes: bool
) -> Objects:
    client: ClientConfig = {
        "allow_http": True,  # where the endpoint says so; those that are known are https
        "connect_timeout": timedelta(seconds=config.connect_timeout_s),
        "timeout": timedelta(seconds=config.write_timeout_s if writes else config.read_timeout_s),
        "user_agent": "headrace",
    }
    if not writes:  # a store is silent while it copies
        client["read_timeout"] = timedelta(seconds=config.silence_s)
    retries: RetryConfig = {
        "max_retries": WRITE_RETRIES if writes else 0,
        "retry_timeout": timedelta(seconds=config.outage_s),
        "backoff": {"max_backoff": timedelta(seconds=LONGEST_PAUSE_S)},
    }
    try:
        return _store(address, settings, client, retries)
    except NATIVE_ERRORS as error:
        raise ConfigError(f"cannot open {address.url}: {_misconfigured(str(error))}") from None


def _store(
    address: ObjectsAddress, settings: S3Config, client: ClientConfig, retries: RetryConfig
) -> Objects:
    bucket = address.bucket
    if address.kind == "s3":
        return S3Store(bucket, config=settings, client_options=client, retry_config=retries)
    if address.kind == "gs":
        return GCSStore(bucket, client_options=client, retry_config=retries)
    account: AzureConfig = {"account_name": address.account} if address.account else {}
    return AzureStore(bucket, config=account, client_options=client, retry_config=retries)


def _misconfigured(text: str) -> str:
    if "Account must be specified" in text:
        return "AZURE_STORAGE_ACCOUNT_NAME is not set; set it, or name the account in the URL"
    return f"obstore says {text.splitlines()[0][:300]}; look at what is set in the environment"


_used_in: int | None = None
"""Process in which obstore has begun its threads; they do not come along into a fork."""


def _require_own_process(tried: str) -> None:
    global _used_in  # noqa: PLW0603 - obstore's threads are the process's, too
    if _used_in is None:
        _used_in = os.getpid()
    elif _used_in != os.getpid():
        raise StorageError(
            f"cannot {tried}: this process was forked from one that had used an object store, and "
            "its connections do not outlive a fork; start processes by 'spawn' or 'forkserver' "
            "(torch: multiprocessing_context='forkserver')"
        )
