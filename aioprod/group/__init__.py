"""Consumer groups: who reads which partitions, and a member that joins a group and reads its own."""

from __future__ import annotations

from aioprod.group.member import Member
from aioprod.group.settings import MemberConfig
from aioprod.types import GroupMetadata

__all__ = ["GroupMetadata", "Member", "MemberConfig"]
