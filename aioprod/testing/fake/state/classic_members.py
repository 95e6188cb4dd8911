"""The members of a consumer group of the classic protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from aioprod.errors import ErrorCode, ProtocolError
from aioprod.group.subscription_codec import decode_subscription
from aioprod.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse
from aioprod.messages.join_group import JoinGroupRequestProtocol
from aioprod.testing.fake.state.timers import Cancel

__all__ = ["JoinTerms", "Member", "Members", "Reply", "join_error_response", "timeouts_s"]

AnswerT = TypeVar("AnswerT")
Reply = Callable[[AnswerT], None]
"""Receives a response when it is due."""


@dataclass(frozen=True, slots=True)
class JoinTerms:
    """The client's id, and what the version of its JoinGroup supports: a new member first gets its id (KIP-394), and a
    static leader that rejoins skips the assignment (KIP-814)."""

    client_id: str
    requires_member_id: bool
    skips_assignment: bool


@dataclass
class Member:
    """A member. `joining` and `syncing` are set while a request of it waits for the response; `cancel_session` cancels
    its session timeout."""

    id: str
    instance_id: str | None
    session_timeout_s: float
    rebalance_timeout_s: float
    protocols: tuple[JoinGroupRequestProtocol, ...]
    assignment: bytes = b""
    joining: Reply[JoinGroupResponse] | None = None
    syncing: Reply[SyncGroupResponse] | None = None
    has_synced: bool = True
    cancel_session: Cancel = lambda: None

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it waits: its session does not expire meanwhile."""
        return self.joining is not None or self.syncing is not None

    def update(self, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        """Take over what it sends when it rejoins."""
        self.protocols, self.joining = request.protocols, reply
        self.session_timeout_s, self.rebalance_timeout_s = timeouts_s(request)

    def fail(self, error: ErrorCode) -> None:
        """Answer its waiting requests with this error."""
        if self.joining is not None:
            self.joining(join_error_response(error, self.id))
        if self.syncing is not None:
            self.syncing(SyncGroupResponse(error_code=error, assignment=b""))
        self.joining = self.syncing = None

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription for a protocol."""
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")

    def topics(self, protocol: str | None) -> tuple[str, ...]:
        """The topics that it reads, as a consumer says them in its subscription; none in other bytes."""
        try:
            return tuple(decode_subscription(self.metadata(protocol)).topics)
        except ProtocolError:
            return ()


class Members(dict[str, Member]):
    """Members by id, in the order in which they joined."""

    def static(self, instance_id: str | None) -> Member | None:
        """The static member with this instance id (KIP-345), None if there is none."""
        return next((one for one in self.values() if instance_id is not None and one.instance_id == instance_id), None)

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error if this is not a member, else NONE."""
        known = self.static(instance_id)
        if known is not None and known.id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        is_known = member_id in self and (instance_id is None or known is not None)
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID

    def replace(self, old: Member, new: Member) -> None:
        """Replace a member, in the same position."""
        members = [new if one is old else one for one in self.values()]
        self.clear()
        self.update({one.id: one for one in members})

    @property
    def rebalance_timeout_s(self) -> float:
        """The longest rebalance timeout of a member."""
        return max((one.rebalance_timeout_s for one in self.values()), default=0.0)

    @property
    def common(self) -> set[str]:
        """The protocols that all members support."""
        return set.intersection(*({one.name for one in member.protocols} for member in self.values()))

    @property
    def choice(self) -> str:
        """The protocol with the most votes; each member votes for the first of its own that all support."""
        common = self.common
        firsts = (next(one.name for one in member.protocols if one.name in common) for member in self.values())
        return Counter(firsts).most_common(1)[0][0]

    def supports(self, protocols: Iterable[JoinGroupRequestProtocol]) -> bool:
        """Whether all members support one of these."""
        return bool({one.name for one in protocols} & self.common)


def join_error_response(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """The response to a JoinGroup that fails."""
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=())


def timeouts_s(request: JoinGroupRequest) -> tuple[float, float]:
    """The timeouts of the session and of a rebalance, which are the same before version 1."""
    session_ms, rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    return session_ms / 1000, (session_ms if rebalance_ms < 0 else rebalance_ms) / 1000
