"""The round-robin assignor."""

from __future__ import annotations

from collections.abc import Mapping

from aioprod.group.assignors.model import Assignment, Partitions, Subscription, normalized

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor:
    """Deals the partitions of all topics to the members in turn, and skips members that don't subscribe to the topic.

    The result is even if all members have the same subscription; if not, the member after a skipped one gets more.
    """

    name = "roundrobin"

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """The partitions of each member, in order of topic and partition."""
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
