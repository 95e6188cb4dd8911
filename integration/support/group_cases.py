"""`GroupCase`: a consumer group as the input of our assignors, and as JSON for `Assignors.java`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aioprod.cluster import Node, PartitionInfo
from aioprod.group.assignors import Assignor, Subscription
from aioprod.types import TopicPartition

__all__ = ["GroupCase"]


@dataclass(frozen=True, slots=True)
class GroupCase:
    """Per topic the racks of each partition's replicas, and the members in the order of their ids.

    The generations of `old_members` are in their user data only: the first subscriptions had no field for it.
    """

    topics: Mapping[str, Sequence[Sequence[str]]]
    members: Mapping[str, Subscription]
    old_members: frozenset[str] = frozenset()

    @property
    def partitions(self) -> dict[str, list[PartitionInfo]]:
        """The topics' partitions, as assignors get them."""
        return {
            topic: [
                PartitionInfo(topic, index, None, tuple(Node(ord(rack), "host", 9092, rack) for rack in racks), ())
                for index, racks in enumerate(all_racks)
            ]
            for topic, all_racks in self.topics.items()
        }

    def subscriptions(self, assignor: Assignor) -> dict[str, Subscription]:
        """The members' subscriptions with this assignor's user data."""
        user_data = getattr(assignor, "user_data", lambda owned, generation: None)
        return {
            member: replace(
                subscription,
                generation=-1 if member in self.old_members else subscription.generation,
                user_data=user_data(subscription.owned, subscription.generation),
            )
            for member, subscription in self.members.items()
        }

    def as_json(self) -> dict[str, Any]:
        """The group as JSON for Java."""
        return {
            "topics": self.topics,
            "members": {
                member: {
                    "topics": subscription.topics,
                    "owned": _by_topic(subscription.owned),
                    "generation": subscription.generation,
                    "rack": subscription.rack,
                    "instance": subscription.group_instance_id,
                    "is_old": member in self.old_members,
                }
                for member, subscription in self.members.items()
            },
        }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp.partition)
    return grouped
