"""The syntax of topics, partitions and members on a command line; each function raises ArgumentTypeError."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from aioprod.group.assignors import Subscription
from aioprod.types import TopicPartition

__all__ = ["Members", "count_of", "members_of", "partitions_of", "subscriptions", "topics_of", "unique"]

_COUNT_MAX: Final = 100_000
"""The most partitions, and members: a typing error must not use up the memory."""


class Members(NamedTuple):
    """Some members that read the same topics: None stands for all."""

    names: list[str]
    topics: list[str] | None


def count_of(text: str) -> int:
    """A number of partitions or of members."""
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= _COUNT_MAX:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 to {_COUNT_MAX}")
    return count


def partitions_of(text: str) -> list[str | TopicPartition]:
    """`orders`, a whole topic, or `orders:0,1`, some of its partitions."""
    topic, limited, indexes = text.partition(":")
    if not limited and topic:
        return [topic]
    if not topic or not indexes or not all(index.isdecimal() for index in indexes.split(",")):
        raise ArgumentTypeError(f"{text!r} is no topic with partitions: write it as orders or, for some, as orders:0,1")
    return [TopicPartition(topic, int(index)) for index in indexes.split(",")]


def topics_of(text: str) -> list[tuple[str, int]]:
    """`orders=12,clicks=6`: topics with their numbers of partitions."""
    topics = []
    for word in _words(text):
        topic, sign, count = word.partition("=")
        if not topic or not sign:
            raise ArgumentTypeError(f"{word!r} is not a topic with its number of partitions: write it as orders=12")
        topics.append((topic, count_of(count)))
    return topics


def unique(topics: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Topics by name; ArgumentTypeError for none, and for two of one name."""
    if len(named := dict(topics)) < len(topics) or not topics:
        raise ArgumentTypeError("give topics, each once")
    return named


def members_of(text: str) -> list[Members]:
    """`a,b:orders,web=8:orders+clicks`: members, some with their topics, and web-0 to web-7.

    A number on its own, as in `3` or `3:orders`, says how many: member-0 to member-2.
    """
    members = []
    words = list(_words(text))
    for word in words:
        name, limited, reads = word.partition(":")
        name, many, count = name.partition("=")
        topics = [topic for topic in reads.split("+") if topic] if limited else None
        if len(words) == 1 and name.isdecimal() and not many:
            name, many, count = "member", "=", name
        if not name or topics == []:
            raise ArgumentTypeError(
                f"{word!r} is not a member: write it as a, as a:orders+clicks or, for eight, as 8 or web=8"
            )
        members.append(Members(_numbered(name, count_of(count)) if many else [name], topics))
    return members


def subscriptions(topics: Sequence[str], members: Sequence[Members]) -> dict[str, Subscription]:
    """What each member reads; ArgumentTypeError for two members of one name, and for a topic that there is not."""
    read: dict[str, Subscription] = {}
    for group in members:
        for topic in group.topics or ():
            if topic not in topics:
                near = get_close_matches(topic, topics, n=1)
                meant = f"did you mean {near[0]}?" if near else f"it has {', '.join(topics)}"
                raise ArgumentTypeError(
                    f"{group.names[0]!r} can't read {topic!r}, which --topics does not have: {meant}"
                )
        for name in group.names:
            if name in read:
                raise ArgumentTypeError(f"there are two members {name!r}: give each a name of its own")
            read[name] = Subscription(list(topics) if group.topics is None else group.topics)
    if not read:
        raise ArgumentTypeError("there is no member: give some, such as a,b,c")
    return read


def _words(text: str) -> Iterator[str]:
    return filter(None, (word.strip() for word in text.split(",")))


def _numbered(name: str, count: int) -> list[str]:
    # With leading zeros names sort as their numbers do.
    digits = len(str(count - 1))
    return [f"{name}-{index:0{digits}}" for index in range(count)]
