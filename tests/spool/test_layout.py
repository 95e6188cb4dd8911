"""The bytes of segments and groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.errors import SpoolError
from aioprod.spool.layout import (
    GROUP_BYTES,
    SEGMENT_BYTES,
    Group,
    Segment,
    file_name,
    find_groups,
    group_header,
    read_group,
    read_segment,
    seed_of,
    segment_header,
)

ID = bytes(range(16))
SEED = seed_of(ID)
NUMBERS = st.integers(0, 2**63)
NAMES = st.binary(min_size=8, max_size=8)


@given(NUMBERS, NAMES, st.binary(min_size=16, max_size=16))
def test_a_segment_is_read_as_it_was_written(base: int, previous: bytes, spool_id: bytes) -> None:
    data = segment_header(spool_id, Segment(base, previous))
    assert len(data) == SEGMENT_BYTES
    assert read_segment(file_name(base), data + b"more", spool_id) == (base, previous)


@given(NUMBERS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), NAMES)
def test_a_group_is_read_as_it_was_written(base: int, records: int, size: int, name: bytes) -> None:
    group = Group(70, base, records, size, name)
    data = group_header(group, SEED)
    assert len(data) == GROUP_BYTES
    assert read_group(b"..." + data, 3, SEED, 67) == group
    assert group.end == 70 + GROUP_BYTES + size
    assert group.next == base + records


def test_names_of_files_are_in_the_order_of_numbers() -> None:
    numbers = [1, 9, 10, 10**9, 2**63]
    assert sorted(map(file_name, numbers)) == [file_name(number) for number in numbers]


def test_each_bit_of_a_segments_header_counts() -> None:
    data = segment_header(ID, Segment(7, b"12345678"))
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SpoolError):
            read_segment(file_name(7), bytes(changed), ID)
    for size in range(len(data)):
        with pytest.raises(SpoolError, match="cut off or damaged"):
            read_segment(file_name(7), data[:size], ID)


def test_each_bit_of_a_groups_header_counts() -> None:
    data = group_header(Group(0, 7, 2, 30, b"12345678"), SEED)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert read_group(bytes(changed), 0, SEED) is None
    for size in range(len(data)):
        assert read_group(data[:size], 0, SEED) is None


def test_segments_of_others() -> None:
    data = segment_header(ID, Segment(7, b"12345678"))
    with pytest.raises(SpoolError, match=f"belongs to the spool {ID.hex()}, and this folder is the spool {'ff' * 16}"):
        read_segment(file_name(7), data, b"\xff" * 16)
    with pytest.raises(SpoolError, match="damaged"):
        read_segment(file_name(8), data, ID)
    with pytest.raises(SpoolError, match="version 2 of the format, and this aioprod knows version 1") as caught:
        read_segment(file_name(7), data[:5] + b"\x02" + data[6:], ID)
    assert caught.value.hint == "Use the version of aioprod that has written it."


def test_groups_are_found_in_any_place() -> None:
    groups = [Group(5, 1, 1, 0, b"aaaaaaaa"), Group(60, 9, 2, 10, b"bbbbbbbb")]
    data = bytearray(200)
    for group in groups:
        data[group.at : group.at + GROUP_BYTES] = group_header(group, SEED)
    data[150:154] = b"aspG"
    assert list(find_groups(bytes(data), SEED)) == groups
    assert list(find_groups(bytes(data), SEED + 1)) == []
    assert list(find_groups(b"aspG" * 100, SEED)) == []
