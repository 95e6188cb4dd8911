from __future__ import annotations

from aioprod.records import memory


def test_copy_moves_only_the_named_bytes() -> None:
    target = bytearray(b"..........")
    memory.copy(target, 2, b"abcdef", 1, 3)
    assert target == b"..bcd....."


def test_copy_of_nothing_leaves_the_target_alone() -> None:
    target = bytearray(b"abc")
    memory.copy(target, 3, b"", 0, 0)
    assert target == b"abc"
