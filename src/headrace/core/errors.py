"""The error tree, on one page, split by whose fault it is.

Every message names what was tried, on what, and what to do next. ``exit_code``
is what the command line returns when the error ends a command.
"""

from __future__ import annotations

from typing import ClassVar


class HeadraceError(Exception):
    """Root of everything headrace raises on purpose."""

    exit_code: ClassVar[int] = 1


class CallerError(HeadraceError):
    """The call is wrong: a bad argument, a path that is not there, an unknown name."""

    exit_code = 2


class ConfigError(CallerError):
    """A configuration value or key is wrong."""


class ReportError(CallerError):
    """What a job or an agent reported cannot be true: not finite, negative, out of its range."""


class NotFoundError(CallerError):
    """A file, directory or named thing does not exist."""


class CorruptDataError(HeadraceError):
    """Bytes that were read are not what they claim to be."""

    exit_code = 1


class CorruptSampleError(CorruptDataError):
    """One sample cannot be decoded.

    Raised only for reasons every host would find as well (the bytes, or a limit
    stated in the pipeline), never for a lack of memory, time or a dead process.
    """


class StaleError(CorruptDataError):
    """A file is no longer the one that was described before."""


class StaleIndexError(StaleError):
    """A file changed after it was indexed; its recorded offsets are not to be trusted."""


class RemoteError(HeadraceError):
    """Something on the other side of a socket or a mount failed."""

    exit_code = 3


class StorageError(RemoteError):
    """Reading from or writing to storage failed although the call was right."""


class AccessError(StorageError):
    """Something is there, but not for this user or under this root: no right, or a link out."""


class AgentUnavailableError(RemoteError):
    """No answer from an agent for now: refused, reset, cut off, or its storage is away."""


class AuthError(RemoteError):
    """The peer refused the token, or its certificate is not trusted."""


class RefusedError(RemoteError):
    """The peer understood the request and refuses it."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code
        """The reason's stable name: ``unknown-job``, ``outside-roots`` …; empty when none came."""


class ProtocolError(RemoteError):
    """The peer sent something the protocol does not allow."""


class DeadlineError(RemoteError):
    """A bounded wait ended without the thing waited for."""
