"""What the testbed raises besides the errors of ``headrace.core``."""

from __future__ import annotations

from headrace.core.errors import RemoteError


class TestbedError(RemoteError):
    """The kernel or one of its tools refused a part of the emulated cluster."""

    __test__ = False
    """The name begins like a test's."""
