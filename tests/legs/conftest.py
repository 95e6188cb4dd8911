"""The interpreted leg is imported before the first test, as that takes a while."""

from __future__ import annotations

import pytest

from tests.support.legs import legs


@pytest.fixture(scope="session", autouse=True)
def both_legs() -> None:
    legs()
