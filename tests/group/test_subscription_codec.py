"""Subscriptions and assignments as bytes, as Java writes and reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.errors import ProtocolError
from aioprod.group.assignors import CooperativeStickyAssignor, StickyAssignor, Subscription
from aioprod.group.assignors.sticky.user_data import decode_generation, decode_sticky
from aioprod.group.subscription_codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from aioprod.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 2)
FULL = Subscription(
    ("clicks", "orders"), owned=(CLICKS, ORDERS), generation=7, rack="a", user_data=b"hi", group_instance_id="one"
)

names = st.text("abc.-_", min_size=1, max_size=5).filter(lambda name: name not in {".", ".."})
places = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
subscriptions = st.builds(
    Subscription,
    st.lists(names, unique=True).map(lambda found: tuple(sorted(found))),
    owned=st.lists(places, unique=True).map(lambda found: tuple(sorted(found))),
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | names,
    user_data=st.none() | st.binary(max_size=5),
)


def test_the_bytes_of_a_subscription() -> None:
    assert encode_subscription(FULL).hex(" ", -2) == (
        "0003 0000 0002 0006 636c 6963 6b73 0006 6f72 6465 7273 0000 0002 6869 "
        "0000 0002 0006 636c 6963 6b73 0000 0001 0000 0002 0006 6f72 6465 7273 0000 0001 0000 0000 "
        "0000 0007 0001 61"
    )


def test_the_bytes_of_an_assignment() -> None:
    assert encode_assignment([ORDERS]).hex(" ", -2) == (
        "0003 0000 0001 0006 6f72 6465 7273 0000 0001 0000 0000 ffff ffff"
    )


@given(subscriptions)
def test_what_is_written_is_read(subscription: Subscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(st.lists(places, unique=True))
def test_an_assignment_keeps_its_topics_together(partitions: list[TopicPartition]) -> None:
    found = decode_assignment(encode_assignment(partitions))
    assert sorted(found) == sorted(partitions)
    for topic in {tp.topic for tp in partitions}:
        assert [tp for tp in found if tp.topic == topic] == [tp for tp in partitions if tp.topic == topic]


@pytest.mark.parametrize(
    ("version", "known"),
    [
        (0, Subscription(FULL.topics, user_data=b"hi")),
        (1, Subscription(FULL.topics, owned=FULL.owned, user_data=b"hi")),
        (2, Subscription(FULL.topics, owned=FULL.owned, generation=7, user_data=b"hi")),
    ],
)
def test_older_members_say_less(version: int, known: Subscription) -> None:
    assert decode_subscription(encode_subscription(FULL, version)) == known


def test_the_instance_id_comes_from_join_group() -> None:
    assert decode_subscription(encode_subscription(FULL), "one") == FULL


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    data = b"\x00\x09" + encode_subscription(FULL)[2:] + b"something new"
    assert decode_subscription(data, "one") == FULL
    assert decode_assignment(b"\x00\x09" + encode_assignment([ORDERS])[2:] + b"something new") == (ORDERS,)


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == ()


@pytest.mark.parametrize("size", range(len(encode_subscription(FULL))))
def test_a_truncated_subscription_is_an_error(size: int) -> None:
    with pytest.raises(ProtocolError, match="A member of the group sent an invalid ConsumerProtocolSubscription"):
        decode_subscription(encode_subscription(FULL)[:size])


def test_no_count_decides_what_is_allocated() -> None:
    with pytest.raises(ProtocolError, match="sent an invalid ConsumerProtocolAssignment"):
        decode_assignment(b"\x00\x00\x7f\xff\xff\xff")
    with pytest.raises(ProtocolError, match="its version is -1"):
        decode_assignment(b"\xff\xff")


def test_an_assignment_has_a_size_that_a_member_can_take_over() -> None:
    within = [TopicPartition("t", index) for index in range(100_000)]
    assert len(decode_assignment(encode_assignment(within))) == 100_000
    with pytest.raises(ProtocolError, match="is assigned 100,001 partitions, and reads 100,000 at most"):
        decode_assignment(encode_assignment([*within, TopicPartition("u", 0)]))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (TopicPartition("a\x1b\nERROR", 0), r"Topic 'a\\x1b\\nERROR' has a name with other characters"),
        (TopicPartition("a" * 30_000, 0), "Topic 'aaaaaaaaaaaaaaaaaaaa'... has a name of 30000 characters"),
        (TopicPartition("", 0), "A topic's name can't be empty"),
        (TopicPartition("t", -1), "topic 't' has no partition -1"),
    ],
)
def test_names_and_partitions_that_no_topic_has_are_an_error(wrong: TopicPartition, text: str) -> None:
    with pytest.raises(ProtocolError, match=f"sent an invalid ConsumerProtocolAssignment: {text}"):
        decode_assignment(encode_assignment([ORDERS, wrong]))
    with pytest.raises(ProtocolError, match=f"sent an invalid ConsumerProtocolSubscription: {text}"):
        decode_subscription(encode_subscription(Subscription(("orders",), owned=(wrong,))))
    if wrong.partition == 0:
        with pytest.raises(ProtocolError, match=text):
            decode_subscription(encode_subscription(Subscription((wrong.topic,))))


def test_what_sticky_assignors_say_of_themselves() -> None:
    sticky, cooperative = StickyAssignor(), CooperativeStickyAssignor()
    assert sticky.user_data(None, -1) is None
    said = sticky.user_data((ORDERS, CLICKS), 4)
    assert said is not None
    assert decode_sticky(said) == ([CLICKS, ORDERS], 4)
    data = cooperative.user_data((ORDERS,), 4)
    assert data is not None
    assert decode_generation(data) == 4
