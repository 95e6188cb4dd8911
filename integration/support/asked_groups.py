"""Consumer groups as our assignors are given them, and in the JSON of `Assignors.java`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aioprod.cluster import Node, PartitionInfo
from aioprod.group.assignors import Assignor, Subscription
from aioprod.types import TopicPartition

__all__ = ["AskedGroup"]


@dataclass(frozen=True, slots=True)
class AskedGroup:
    """Per topic the racks of each partition's replicas, and the members in the order of their ids.

    The generations of `old_members` are in their user data only: the first subscriptions had no field for it.
    """

    topics: Mapping[str, Sequence[Sequence[str]]]
    members: Mapping[str, Subscription]
    old_members: frozenset[str] = frozenset()

    @property
    def partitions(self) -> dict[str, list[PartitionInfo]]:
        """What the assignors are told of the topics."""
        return {
            topic: [
                PartitionInfo(topic, index, None, tuple(Node(ord(rack), "host", 9092, rack) for rack in racks), ())
                for index, racks in enumerate(all_racks)
            ]
            for topic, all_racks in self.topics.items()
        }

    def subscriptions(self, assignor: Assignor) -> dict[str, Subscription]:
        """What the members say if they use this assignor."""
        user_data = getattr(assignor, "user_data", lambda owned, generation: None)
        return {
            member: replace(
                said,
                generation=-1 if member in self.old_members else said.generation,
                user_data=user_data(said.owned, said.generation),
            )
            for member, said in self.members.items()
        }

    def as_json(self) -> dict[str, Any]:
        """The group as Java is asked about it."""
        return {
            "topics": self.topics,
            "members": {
                member: {
                    "topics": said.topics,
                    "owned": _by_topic(said.owned),
                    "generation": said.generation,
                    "rack": said.rack,
                    "instance": said.group_instance_id,
                    "is_old": member in self.old_members,
                }
                for member, said in self.members.items()
            },
        }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp.partition)
    return grouped
