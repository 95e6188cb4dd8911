"""The text of markers, those of earlier versions and of Spark's jobs included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod import OffsetAndMetadata
from aioprod.errors import MarkerError
from aioprod.relay.marker import Marker

OWNERS = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.integers(0, 2**62), OWNERS, st.none() | st.binary(max_size=30), st.sampled_from(["", "0123456789abcdef"]))
def test_a_marker_is_read_as_it_was_written(number: int, owner: str, position: bytes | None, claim: str) -> None:
    marker = Marker(number, owner, position, claim)
    assert Marker.of(marker.to_offset(), owner, "id") == marker


@pytest.mark.parametrize(
    ("metadata", "marker"),
    [
        ("shop", Marker(3, "shop")),
        ("shop:last id", Marker(3, "shop", b"last id")),
        ("shop:", Marker(3, "shop", b"")),
        ("shop:=AP8=", Marker(3, "shop", b"\x00\xff")),
        ("shop:=PTE=", Marker(3, "shop", b"=1")),
    ],
)
def test_texts(metadata: str, marker: Marker) -> None:
    assert Marker.of(OffsetAndMetadata(3, metadata), "shop", "id") == marker
    assert marker.to_offset() == OffsetAndMetadata(3, metadata)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [("", "belongs to another source"), ("shops:1", "is 'shops:1'"), ("shop:=A", "has the position '=A'")],
)
def test_texts_that_are_not_of_this_source(metadata: str, said: str) -> None:
    with pytest.raises(MarkerError, match=said):
        Marker.of(OffsetAndMetadata(3, metadata), "shop", "id")
