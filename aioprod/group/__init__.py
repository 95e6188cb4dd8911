"""Consumer groups: the consumer `Member`, the two group protocols, and the assignors."""

from __future__ import annotations

from aioprod.group.member import Member
from aioprod.group.settings import MemberConfig
from aioprod.types import GroupMetadata

__all__ = ["GroupMetadata", "Member", "MemberConfig"]
