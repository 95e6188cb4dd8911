"""The demo's check has to notice a single record that is lost, repeated, moved or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from examples.demo.compare import Digests, compare

Record = tuple[bytes | None, bytes | None]

SENT: list[Record] = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", b""), (b"b", b"2"), (b"a", b"2"), (b"c", None)]


def digested(records: Iterable[Record]) -> Digests:
    digests = Digests()
    for key, value in records:
        digests[key].add(value)
    return digests


def changed(change: Callable[[list[Record]], object]) -> list[str]:
    read = list(SENT)
    change(read)
    return compare(digested(SENT), digested(read))


def swap(records: list[Record], first: int, second: int) -> None:
    records[first], records[second] = records[second], records[first]


def test_the_same_records_are_no_difference() -> None:
    assert compare(digested(SENT), digested(SENT)) == []


def test_keys_may_come_in_any_order() -> None:
    assert changed(lambda read: read.sort(key=lambda record: record[0] or b"")) == []


def test_a_lost_record_is_found() -> None:
    assert changed(lambda read: read.pop(2)) == ["a: 1 of its 4 records did not come back."]


def test_a_repeated_record_is_found() -> None:
    assert changed(lambda read: read.insert(3, read[2])) == ["a: 1 records too many: 4 were sent."]


def test_swapped_records_are_found() -> None:
    assert changed(lambda read: swap(read, 0, 2)) == ["a: its 4 records came back in another order."]


@pytest.mark.parametrize("value", [b"2x", b"", b"2 ", None])
def test_a_changed_record_is_found(value: bytes | None) -> None:
    assert changed(lambda read: read.__setitem__(4, (b"b", value))) == [
        "b: as many records came back as were sent (2), but not the same ones."
    ]


def test_a_record_lost_where_another_is_repeated_is_found() -> None:
    assert changed(lambda read: read.__setitem__(4, read[1])) == [
        "b: as many records came back as were sent (2), but not the same ones."
    ]


def test_a_null_is_not_an_empty_value() -> None:
    assert changed(lambda read: read.__setitem__(6, (b"c", b""))) == [
        "c: as many records came back as were sent (1), but not the same ones."
    ]


def test_a_key_that_is_missing_or_was_never_sent_is_found() -> None:
    assert changed(lambda read: read.__setitem__(6, (None, b"x"))) == [
        "records without key: 1 records that were never sent.",
        "c: none of its 1 records came back.",
    ]


def test_a_record_under_another_key_is_found() -> None:
    assert len(changed(lambda read: read.__setitem__(0, (b"b", b"1")))) == 2


def test_a_key_that_is_no_text_can_be_named() -> None:
    assert compare(digested([(b"\xff", b"")]), Digests()) == ["\\xff: none of its 1 records came back."]


@given(st.lists(st.binary(max_size=3), max_size=5), st.lists(st.binary(max_size=3), max_size=5))
def test_two_different_sequences_never_look_the_same(sent: list[bytes], read: list[bytes]) -> None:
    assume(sent != read)
    assert compare(digested((b"k", value) for value in sent), digested((b"k", value) for value in read))


def test_records_are_counted() -> None:
    assert digested(SENT).records == len(SENT)
