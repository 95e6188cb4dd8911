"""The spool: both builds write the same bytes for records, and read the same out of any."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aioprod.spool.entries import encode_entry
from tests.support.builds import Build, check_same

RECORDS = st.tuples(
    st.binary(min_size=1, max_size=5),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=40),
    st.sampled_from([b"\x00", b"\x02\x02h\x02x"]),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.just(77),
)


def read(build: Build, data: bytes, count: int) -> object:
    rows = build["aioprod.relay.columns"].ColumnRows()
    end = build["aioprod.spool.entries"].EntryReader(77).read(data, 0, len(data), count, rows)
    columns = (rows.topics, rows.partitions, rows.keys, rows.values, rows.headers, rows.timestamps)
    return end, [list(column) for column in columns]


@given(st.lists(RECORDS, max_size=5), st.integers(0, 6))
def test_records_that_are_kept(given: list[Any], count: int) -> None:
    def call(build: Build) -> object:
        data = b"".join(build["aioprod.spool.entries"].encode_entry(*record) for record in given)
        return data, read(build, data, min(count, len(given)))

    check_same(call)


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_records_that_are_damaged(given: list[Any], data: st.DataObject) -> None:
    whole = bytearray(b"".join(encode_entry(*record) for record in given))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    damaged = bytes(whole[: data.draw(st.integers(at, len(whole)))])

    def call(build: Build) -> object:
        return read(build, damaged, len(given))

    check_same(call)


@given(st.lists(st.tuples(st.binary(max_size=60), st.none() | st.just("waiter"), st.booleans()), max_size=8))
def test_gathering(given: list[Any]) -> None:
    def call(build: Build) -> object:
        gathering = build["aioprod.spool.gathering"].Gathering(400, 150)
        said = []
        for data, waiter, is_urgent in given:
            said.append(gathering.add(data, 1, waiter, is_urgent))
        groups = [(group.parts, group.records, group.size, group.waiters) for group in gathering.groups]
        return said, groups, gathering.pending_bytes, gathering.added

    check_same(call)


def test_what_the_user_gives() -> None:
    def call(build: Build) -> object:
        config = build["aioprod.config"].ProducerConfig(bootstrap_servers="localhost:1", max_request_size=400)
        interceptors = build["aioprod.interceptors"].Interceptors()
        preparation = build["aioprod.producer.preparation"].Preparation(interceptors, None, None)
        intake = build["aioprod.spool.intake"].Intake(config, preparation, 77)
        found: list[object] = []
        for arguments in (
            ("t", b"v", b"k", 3, [("h", b"x")], 9),
            ("t", None, None, None, None, 5),
            ("t", bytearray(b"v"), None, None, None, 5),
            ("t", "text", None, None, None, None),
            ("t", b"v" * 400, None, None, None, None),
            ("no topic", b"v", None, None, None, None),
            ("t", b"v", None, -1, None, None),
        ):
            try:
                found.append(bytes(intake.encode(*arguments)))
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found

    check_same(call)
