"""Subscriptions and assignments compared with Java's consumer: equal bytes, and each reads the other's."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.group.assignors import CooperativeStickyAssignor, StickyAssignor, Subscription
from aioprod.group.assignors.sticky.user_data import decode_sticky
from aioprod.group.subscription_codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from integration.support.java import JavaOracle
from tests.support.golden import from_base64, to_base64

_source = random.Random("groups")


def _member() -> Subscription:
    topics = _source.sample(["a", "b.c", "d_e-f", "orders", "z" * 249], _source.randint(0, 5))
    places = sorted({TopicPartition(_source.choice(topics), _source.randrange(50)) for _ in range(8)} if topics else ())
    return Subscription(
        tuple(sorted(topics)),
        owned=tuple(places),
        generation=_source.choice([-1, 0, 1, 2**31 - 1]),
        rack=_source.choice([None, "rack-1", "Zürich"]),
        user_data=_source.choice([None, b"", b"\x00\xff"]),
    )


MEMBERS = [_member() for _ in range(500)]


def told(member: Subscription) -> dict[str, Any]:
    """A member as Java is told of it."""
    return {
        "topics": member.topics,
        "owned": member.owned,
        "generation": member.generation,
        "rack": member.rack,
        "user_data": None if member.user_data is None else to_base64(member.user_data),
    }


@pytest.mark.parametrize("version", range(4))
def test_the_same_bytes(oracle: JavaOracle, cases: Counter[str], version: int) -> None:
    rows = oracle.call("group_blobs", version=version, members=[told(member) for member in MEMBERS])
    for member, row in zip(MEMBERS, rows, strict=True):
        blob = from_base64(row["subscription"])
        assert encode_subscription(member, version) == blob
        assert encode_subscription(decode_subscription(blob), version) == blob
        assert encode_assignment(member.owned, version) == from_base64(row["assignment"])
        assert CooperativeStickyAssignor().user_data(member.owned, member.generation) == from_base64(row["cooperative"])
        said = StickyAssignor().user_data(member.owned, member.generation)
        assert said is not None
        theirs, generation = decode_sticky(from_base64(row["sticky"]))
        # Java writes the topics in the order of a hash table.
        assert (sorted(theirs), generation) == decode_sticky(said)
        cases["blobs of groups that are Java's"] += 1


def test_java_reads_what_we_write(oracle: JavaOracle) -> None:
    subscriptions = [encode_subscription(member) for member in MEMBERS]
    assignments = [encode_assignment(member.owned) for member in MEMBERS]
    read = oracle.call(
        "read_group_blobs",
        subscriptions=[to_base64(blob) for blob in subscriptions],
        assignments=[to_base64(blob) for blob in assignments],
    )
    for member, blob, row in zip(MEMBERS, subscriptions, read["subscriptions"], strict=True):
        assert row == told(member) | {"topics": list(member.topics), "owned": [list(place) for place in member.owned]}
        assert decode_subscription(blob) == member
    for member, blob, row in zip(MEMBERS, assignments, read["assignments"], strict=True):
        assert sorted(map(tuple, row)) == sorted(decode_assignment(blob)) == sorted(member.owned)
