"""Fixtures of the tests of traces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.traces import Collected


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.provider.shutdown()
