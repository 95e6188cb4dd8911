"""The state of a group by its members' reports: whether all partitions have an owner again."""

from __future__ import annotations

from dataclasses import dataclass, field

from integration.group.reports import Partitions, Report, Said

__all__ = ["GroupStatus"]


@dataclass(slots=True)
class _Member:
    member_id: str = ""
    generation: int = -1
    owned: Partitions = frozenset()
    changed_at: float = 0.0


@dataclass(slots=True)
class GroupStatus:
    """Who is expected to be in the group, and what they have of `partitions`."""

    partitions: Partitions
    _members: dict[str, _Member] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The processes that are expected to be in the group."""
        return list(self._members)

    @property
    def owned(self) -> dict[str, Partitions]:
        """What each has, by member id."""
        return {member.member_id: member.owned for member in self._members.values()}

    @property
    def generation(self) -> int:
        """The newest that anybody knows."""
        return max((member.generation for member in self._members.values()), default=-1)

    def expect(self, process: str) -> None:
        """Count with a process from now on."""
        self._members[process] = _Member()

    def forget(self, process: str) -> bool:
        """Don't count with it any more; whether it had partitions."""
        return bool(self._members.pop(process).owned)

    def report(self, report: Report) -> None:
        """Take note of what one says."""
        member = self._members.get(report.process)
        if member is None or report.said not in (Said.ASSIGNED, Said.REVOKED, Said.LOST):
            return
        gained = report.said is Said.ASSIGNED
        changed = frozenset(report.partitions)
        member.owned = member.owned | changed if gained else member.owned - changed
        if gained:
            member.member_id, member.generation = report.member, report.generation
        member.changed_at = report.at

    def settled_at(self) -> float | None:
        """When the last of all was told what it has: they are of one generation, and each partition has one owner.

        None while it is not so. It may be so for a moment before a member hears what it has to give up.
        """
        members = self._members.values()
        owned = [partition for member in members for partition in member.owned]
        if len(owned) != len(self.partitions) or frozenset(owned) != self.partitions:
            return None
        if len({member.generation for member in members}) != 1:
            return None
        return max(member.changed_at for member in members)
