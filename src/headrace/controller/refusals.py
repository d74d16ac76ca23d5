"""Why the controller does not take a message: each has its own HTTP status and name."""

from __future__ import annotations

from headrace.core.errors import CallerError, NotFoundError


class UnknownJobError(NotFoundError):
    """The job, or the host of it that speaks, did not announce itself here."""


class UnknownAgentError(NotFoundError):
    """The agent did not announce itself here."""


class StaleReportError(CallerError):
    """The report is no next one: it was taken already, comes late, or not after what is known.

    So is one of an earlier start, and one that skips more than can have been lost.
    """
