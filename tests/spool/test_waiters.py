"""Which records of a run are watched, by callers and by callbacks."""

from __future__ import annotations

import pytest

from aioprod import ProducerRecord
from aioprod.interceptors import Interceptors
from aioprod.relay.columns import Rows
from aioprod.spool.kept import Kept
from aioprod.spool.waiters import Watched


def rows_of(*numbers: int) -> Rows:
    return [(ProducerRecord("t", b"v"), b"%d.a" % number) for number in numbers]


@pytest.mark.parametrize("others", [0, 1000])
def test_those_of_a_run_are_found_however_many_others_there_are(others: int) -> None:
    watched = Watched(Interceptors(), lambda: None)
    kept = Kept(b"12.a", None)
    watched.watch(12, kept)
    for number in (11, 15, *range(100, 100 + others)):
        watched.call_back(number, lambda place, error: None)
    assert list(watched.awaited(rows_of(10, 11, 12, 13, 14))) == [1, 2]
    assert list(watched.awaited(rows_of(9, 11, 15))) == [1, 2]
    assert list(watched.awaited(rows_of(1, 2))) == []
