"""aiokafka's batches: both builds take the same records, and hold the same bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builds.test_records import RECORDS, Record
from tests.support.builds import Build, check_same, plain


@given(RECORDS, st.integers(1, 3000))
def test_filling_a_batch(records: list[Record], size_max: int) -> None:
    def call(build: Build) -> object:
        batch: Any = build["aioprod.compat.aiokafka.batch"].BatchBuilder(size_max, None, bytes)
        said = [
            plain(batch.append(timestamp=time, key=key, value=value or b"", headers=headers))
            for time, key, value, headers in records
        ]
        sizes = batch.size(), batch.record_count(), batch.closed()
        return said, sizes, batch.encoded.buffer[: batch.encoded.position]

    check_same(call)
