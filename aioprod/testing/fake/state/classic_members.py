"""The members of a consumer group of the classic protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from aioprod.errors import ErrorCode
from aioprod.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse
from aioprod.messages.join_group import JoinGroupRequestProtocol
from aioprod.testing.fake.state.timers import CallOff

__all__ = ["Member", "Members", "Reply", "Terms", "refusal_to_join", "timeouts_s"]

AnswerT = TypeVar("AnswerT")
Reply = Callable[[AnswerT], None]
"""Takes an answer that had to wait."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the version of a JoinGroup brings with it: a new member is told its id first (KIP-394), and a static leader
    that is back is told not to assign (KIP-814)."""

    client_id: str
    requires_id: bool
    may_skip: bool


@dataclass
class Member:
    """A member. It is `joining` or `syncing` while it waits for an answer; `call_off` stops its session's end."""

    id: str
    instance_id: str | None
    session_timeout_s: float
    rebalance_timeout_s: float
    protocols: tuple[JoinGroupRequestProtocol, ...]
    assignment: bytes = b""
    joining: Reply[JoinGroupResponse] | None = None
    syncing: Reply[SyncGroupResponse] | None = None
    has_synced: bool = True
    call_off: CallOff = lambda: None

    @property
    def is_waiting(self) -> bool:
        """Whether it is the others' turn: its session can't end meanwhile."""
        return self.joining is not None or self.syncing is not None

    def update(self, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        """Take what it says when it joins anew."""
        self.protocols, self.joining = request.protocols, reply
        self.session_timeout_s, self.rebalance_timeout_s = timeouts_s(request)

    def refuse(self, error: ErrorCode) -> None:
        """Answer what it waits for."""
        if self.joining is not None:
            self.joining(refusal_to_join(error, self.id))
        if self.syncing is not None:
            self.syncing(SyncGroupResponse(error_code=error, assignment=b""))
        self.joining = self.syncing = None

    def metadata(self, protocol: str | None) -> bytes:
        """What it tells an assignor."""
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")


class Members(dict[str, Member]):
    """Members by id, in the order in which they came."""

    def static(self, instance_id: str | None) -> Member | None:
        """The static member of this name, if there is one (KIP-345)."""
        return next((one for one in self.values() if instance_id is not None and one.instance_id == instance_id), None)

    def stranger(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why this is no member, NONE if it is."""
        known = self.static(instance_id)
        if known is not None and known.id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        is_known = member_id in self and (instance_id is None or known is not None)
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID

    def replace(self, old: Member, new: Member) -> None:
        """Put a member in the place of another."""
        members = [new if one is old else one for one in self.values()]
        self.clear()
        self.update({one.id: one for one in members})

    @property
    def rebalance_timeout_s(self) -> float:
        """How long the most patient of them may take."""
        return max((one.rebalance_timeout_s for one in self.values()), default=0.0)

    @property
    def common(self) -> set[str]:
        """The protocols that all know."""
        return set.intersection(*({one.name for one in member.protocols} for member in self.values()))

    @property
    def choice(self) -> str:
        """The protocol with the most votes; each member votes for the first of its own that all know."""
        common = self.common
        firsts = (next(one.name for one in member.protocols if one.name in common) for member in self.values())
        return Counter(firsts).most_common(1)[0][0]

    def supports(self, protocols: Iterable[JoinGroupRequestProtocol]) -> bool:
        """Whether all know one of these."""
        return bool({one.name for one in protocols} & self.common)


def refusal_to_join(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """What is answered when nothing comes of it."""
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=())


def timeouts_s(request: JoinGroupRequest) -> tuple[float, float]:
    """The timeouts of the session and of a rebalance, which are the same before version 1."""
    session_ms, rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    return session_ms / 1000, (session_ms if rebalance_ms < 0 else rebalance_ms) / 1000
