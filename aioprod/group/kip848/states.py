"""The life of a member with the brokers' own protocol (KIP-848) as tables: its states, what moves it, what codes mean.

Nothing here acts: `ConsumerMembership` does, and asks here what an event leads to.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod._error_codes import ErrorCode

__all__ = ["TRANSITIONS", "Event", "Meaning", "State", "meaning_of"]


class State(Enum):
    """Where a member stands; the value says it in words."""

    JOINING = "it asks to join"
    MEMBER = "it is in the group, and comes to hold what it is given"
    LOST = "the group has gone on without it: it gives up what it held"
    AWAY = "its user has been away for too long: it says that it goes, and gives up what it held"
    QUITTING = "it gives up everything, to go"
    PARTING = "it tells the coordinator that it goes"
    LEFT = "it is gone"


class Event(Enum):
    """What moves it."""

    JOINED = "joined"
    LOST = "not a member any more"
    TIRED = "max.poll.interval.ms is over"
    GAVE_UP = "given up"
    QUIT = "close()"
    GONE = "told"
    BROKEN = "refused for good"


S = State
E = Event

_GOES_ON: Final = (S.JOINING, S.MEMBER, S.LOST, S.AWAY)

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (S.JOINING, E.JOINED): S.MEMBER,
    (S.MEMBER, E.LOST): S.LOST,
    (S.LOST, E.GAVE_UP): S.JOINING,
    (S.JOINING, E.TIRED): S.AWAY,
    (S.MEMBER, E.TIRED): S.AWAY,
    (S.AWAY, E.GAVE_UP): S.JOINING,
    (S.QUITTING, E.GAVE_UP): S.PARTING,
    (S.PARTING, E.GONE): S.LEFT,
    **{(state, event): S.QUITTING for state in _GOES_ON for event in (E.QUIT, E.BROKEN)},
    # Whoever is about to go has nothing to lose any more.
    **{(state, event): state for state in (S.QUITTING, S.PARTING, S.LEFT) for event in (E.LOST, E.BROKEN, E.QUIT)},
}
"""Where each event leads; one that is not here can't happen in that state, and is a bug."""


class Meaning(Enum):
    """What to do after a code."""

    DONE = "done"
    AGAIN = "ask again after retry.backoff.ms"
    LOST = "the coordinator knows no such member, or one that is further on: all is lost, it joins anew"
    FATAL = "no way to go on"


_C: Final = ErrorCode
_LOST: Final = frozenset({_C.FENCED_MEMBER_EPOCH, _C.UNKNOWN_MEMBER_ID, _C.GROUP_ID_NOT_FOUND})
"""The last is what members hear of a group that was forgotten with them."""


def meaning_of(code: ErrorCode | int, *, joins: bool) -> Meaning:
    """What the answer `code` to a heartbeat means; a code that is not known ends the membership.

    `joins`: the heartbeat was to join, as one that has no epoch to be fenced by.
    """
    if code == ErrorCode.NONE:
        return Meaning.DONE
    if code == ErrorCode.GROUP_ID_NOT_FOUND and joins:
        # The name is that of a group whose members use the other protocol.
        return Meaning.FATAL
    if code in _LOST:
        return Meaning.AGAIN if joins else Meaning.LOST
    return Meaning.AGAIN if isinstance(code, ErrorCode) and code.retriable else Meaning.FATAL
