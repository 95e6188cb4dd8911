"""What the tests of Spark's side share. None of them starts a JVM: what Spark would call is called as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aioprod.spark import worker


@pytest.fixture(autouse=True)
def _fresh_worker() -> Iterator[None]:
    """Each test begins without connections, as a new worker process does."""
    yield
    worker.stop()
