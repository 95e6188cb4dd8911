"""The fuzzing targets of this folder in short: over their seeds, over what was once found, and over damaged seeds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioprod.errors import AioprodError
from tests.fuzz.__main__ import REACHED
from tests.fuzz.limits import ALLOWED
from tests.fuzz.targets import TARGETS
from tests.support.length import by_length

FOUND = Path(__file__).parent / "findings"
READ_BY_ALL = ("responses", "requests", "answer", "metadata", "batches", "builder")
"""Targets whose seeds are all well-formed."""

NUMBERS = st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])


@cache
def seeds(name: str) -> tuple[bytes, ...]:
    return tuple(TARGETS[name].seeds())


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """A seed of the target with some bytes changed, left out, doubled, or put in."""
    data = bytearray(draw(st.sampled_from(seeds(name))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.integers(0, 12))
        match draw(st.integers(0, 5)):
            case 0:
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case 1:
                data[at : at + size] = b""
            case 2:
                data[at:at] = data[at : at + size]
            case 3:
                data[at:at] = draw(st.binary(max_size=12))
            case 4:
                data[at : at + 4] = draw(NUMBERS).to_bytes(4, "big")
            case 5:
                other = draw(st.sampled_from(seeds(name)))
                data[at:] = other[at:]
    return bytes(data)


def test_every_target_has_its_limits() -> None:
    assert TARGETS.keys() == ALLOWED.keys() == REACHED.keys()
    assert all(issubclass(error, AioprodError) for allowed in ALLOWED.values() for error in allowed)


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds(name: str) -> None:
    accepted = [TARGETS[name].check(seed) for seed in seeds(name)]
    assert any(accepted)
    assert all(accepted) or name not in READ_BY_ALL


@pytest.mark.parametrize("name", TARGETS)
def test_cut_off_anywhere(name: str) -> None:
    for seed in sorted(seeds(name), key=len)[:: by_length(80, 40)]:
        for size in range(len(seed)):
            TARGETS[name].check(seed[:size])


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found(path: Path) -> None:
    TARGETS[path.parent.name].check(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=by_length(100, 300), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_seeds(name: str, data: st.DataObject) -> None:
    TARGETS[name].check(data.draw(damaged(name)))


@pytest.mark.parametrize("name", TARGETS)
@given(noise=st.binary(max_size=200))
def test_any_bytes(name: str, noise: bytes) -> None:
    TARGETS[name].check(noise)
