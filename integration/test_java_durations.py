"""Durations of `auto.offset.reset=by_duration:...` compared with Java's consumer: which are valid, and their length."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from aioprod.config._durations import by_duration
from aioprod.group.offset_reset import OffsetReset
from aioprod.types import TopicPartition
from integration.support.java import JavaOracle

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]  # the first run fetches the jars

NOW_MS = 10**15
PARTS = ["P", "T", "-", "+", "1", "07", "D", "H", "M", "S", ".", ",", "5", "000000001", "p", "t", "h", " ", "W"]

_source = random.Random("durations")


def likely() -> str:
    """A text of the right form but for some part of it."""
    numbers = [_source.choice(["", "-", "+"]) + str(_source.randint(0, 400)) for _ in range(4)]
    days, hours, minutes, seconds = (
        number + unit if _source.random() < 0.6 else "" for number, unit in zip(numbers, "DHMS", strict=True)
    )
    fraction = _source.choice(["", ".", ".5", ",25", ".123456789", ".0000000001"])
    seconds = seconds.replace("S", f"{fraction}S")
    return f"{_source.choice(['', '', '-', '+'])}P{days}{_source.choice(['T', 'T', ''])}{hours}{minutes}{seconds}"


def length(duration: str) -> int | None:
    """What we make of it, in ms."""
    try:
        setting = by_duration(f"by_duration:{duration}")
    except ValueError:
        return None
    since = OffsetReset(setting).lookup(TopicPartition("t", 0), NOW_MS / 1000).since
    assert since is not None
    return NOW_MS - since


def test_durations_are_javas(oracle: JavaOracle, cases: Counter[str]) -> None:
    durations = [likely() for _ in range(10_000)]
    durations += ["".join(_source.choices(PARTS, k=_source.randint(0, 8))) for _ in range(10_000)]
    java = oracle.call("durations", durations=durations)
    assert {one: length(one) for one in durations} == dict(zip(durations, java, strict=True))
    assert 1_000 < sum(one is not None for one in java) < 19_000
    cases["durations equal to Java's"] += len(durations)
