"""Puts this folder on the path, so that contract suites are imported as ``contract.…``."""

import pytest

pytest.register_assert_rewrite("contract")
