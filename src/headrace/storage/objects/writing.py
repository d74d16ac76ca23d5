"""Writes one object piece by piece: an upload of parts, which only its end makes visible."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import obstore

from headrace.core.digest import Buffer
from headrace.core.errors import HeadraceError
from headrace.storage.objects.asking import NATIVE_ERRORS, Asking
from headrace.storage.objects.config import ObjectsConfig
from headrace.storage.port import FileInfo
from headrace.storage.writing import AbortingWriter, ended, flat

if TYPE_CHECKING:
    from obstore import WritableFile


class ObjectWriter(AbortingWriter):
    """Uploads parts while they come, and completes the upload. For one thread.

    What fits into one part is sent as a whole when it is committed. The store keeps the parts of
    an upload whose writer was killed, unseen, until a rule of its own removes them.
    """

    def __init__(
        self,
        key: str,
        url: str,
        *,
        asking: Asking,
        config: ObjectsConfig,
        stat: Callable[[], FileInfo],
    ) -> None:
        """Begin an object; nothing is sent before a part is full.

        Args:
            key: Where.
            url: The same, for messages.
            asking: Where requests are made.
            config: How large parts are, and how many are sent at once.
            stat: Describes the object once it is there.
        """
        self._tried = f"write {url}"
        self._url = url
        self._asking = asking
        self._stat = stat
        self._upload: WritableFile | None = asking.tell(
            self._tried,
            lambda store: obstore.open_writer(
                store,
                key,
                buffer_size=config.upload_bytes,
                max_concurrency=config.uploads_in_flight,
            ),
        )

    def write(self, data: Buffer) -> None:
        """Append bytes; waits while as many parts are on their way as may be."""
        view = flat(data)
        self._do(lambda upload: upload.write(view))

    def commit(self) -> FileInfo:
        """Send what is left, and make the object visible."""
        self._do(lambda upload: upload.close())
        self._upload = None
        return self._stat()

    def abort(self) -> None:
        """Have the store drop the parts; what went wrong before is what is told."""
        upload, self._upload = self._upload, None
        if upload is not None:
            with suppress(*NATIVE_ERRORS, HeadraceError):
                upload.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    def _do(self, step: Callable[[WritableFile], object]) -> None:
        upload = self._upload
        if upload is None:
            raise ended(self._url)
        try:
            self._asking.tell(self._tried, lambda _: step(upload))
        except BaseException:
            self.abort()
            raise
