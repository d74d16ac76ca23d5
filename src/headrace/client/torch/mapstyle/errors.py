"""What goes wrong in a dataset's own code."""

from __future__ import annotations

from headrace.core.errors import CallerError


class DatasetError(CallerError):
    """The code of a map-style dataset, or a process that ran it, failed.

    Where the exception of that code can be pickled, it is ``__cause__``.
    """

    def __init__(self, message: str, *, samples: tuple[int, ...]) -> None:
        super().__init__(message)
        self.samples = samples
        """Indices into the dataset of the samples that it failed on."""
