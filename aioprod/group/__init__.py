"""Consumer groups: the consumer `Member`, the two group protocols, and the assignors.

Names are imported when they are used: `Admin` needs no member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.group.config import MemberConfig
    from aioprod.group.health import MemberHealth
    from aioprod.group.member import Member
    from aioprod.group.work.dead_letters import DeadLetters
    from aioprod.group.work.retry import Retry
    from aioprod.types import GroupMetadata

__all__ = ["DeadLetters", "GroupMetadata", "Member", "MemberConfig", "MemberHealth", "Retry"]

if not TYPE_CHECKING:
    from aioprod.types import GroupMetadata

    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "DeadLetters": "work.dead_letters",
            "Member": "member",
            "MemberConfig": "config",
            "MemberHealth": "health",
            "Retry": "work.retry",
        },
    )
