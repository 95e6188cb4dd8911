"""The pure-Python build is imported before the first test, as that takes a while."""

from __future__ import annotations

import pytest

from tests.support.builds import builds


@pytest.fixture(scope="session", autouse=True)
def both_builds() -> None:
    builds()
