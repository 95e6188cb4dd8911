"""All partitions in order, to the members in turn."""

from __future__ import annotations

from collections.abc import Mapping

from aioprod.group.assignors.model import Assignment, Partitions, Subscription, normalized

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor:
    """Deals the partitions of all topics to the members in turn, passing over who does not read the topic.

    Even if all members read the same topics; if not, the member after one that was passed over gets its share.
    """

    name = "roundrobin"

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """Who gets what, in order of topic and partition."""
        group = normalized(partitions, members)
        assignment: Assignment = {member: [] for member in group.members}
        turn = 0
        order = group.by_instance
        for topic, all_partitions in group.topics.items():
            for tp in all_partitions:
                while topic not in group.subscribed[order[turn]]:
                    turn = (turn + 1) % len(order)
                assignment[order[turn]].append(tp)
                turn = (turn + 1) % len(order)
        return assignment
