"""The life of a member with the classic protocol as tables: its states, what moves it, what the brokers' codes mean.

Nothing here acts: `ClassicMembership` does, and asks here what an event leads to. The diagram in `docs/groups.md` is
made from the table by `diagram()`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod._error_codes import ErrorCode

__all__ = ["TRANSITIONS", "Event", "Meaning", "State", "Subject", "diagram", "meaning_of"]


class State(Enum):
    """Where a member stands; the value says it in words."""

    PREPARING = "it gives up what it must not hold while it joins, and waits for the user to be at hand"
    JOINING = "it has asked to join, and waits for all others to do so"
    YIELDING = "it gives up everything, as the assignor that the group has chosen gives it to others at once"
    DIVIDING = "it leads the group, and finds out which partitions there are"
    SYNCING = "it waits for its share"
    REVOKING = "it gives up what is not its own any more"
    TAKING = "it begins to read what is new to it"
    STABLE = "it reads its share"
    QUITTING = "it gives up everything, to go"
    PARTING = "it tells the coordinator that it goes"
    LEFT = "it is gone"


class Event(Enum):
    """What moves it."""

    GAVE_UP = "given up"
    LEADS = "joined as the leader"
    FOLLOWS = "joined"
    YIELDS = "joined, holding what may be another one's"
    DIVIDED = "divided"
    SHARED = "has its share"
    TOOK = "taken"
    REJOIN = "the group divides anew"
    LOST = "not a member any more"
    QUIT = "close()"
    GONE = "told"
    BROKEN = "refused for good"


S = State
E = Event

_GOES_ON: Final = (S.PREPARING, S.JOINING, S.YIELDING, S.DIVIDING, S.SYNCING, S.REVOKING, S.TAKING, S.STABLE)

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (S.PREPARING, E.GAVE_UP): S.JOINING,
    (S.JOINING, E.LEADS): S.DIVIDING,
    (S.JOINING, E.FOLLOWS): S.SYNCING,
    (S.JOINING, E.YIELDS): S.YIELDING,
    (S.YIELDING, E.GAVE_UP): S.SYNCING,
    (S.DIVIDING, E.DIVIDED): S.SYNCING,
    (S.SYNCING, E.SHARED): S.REVOKING,
    (S.SYNCING, E.REJOIN): S.PREPARING,
    (S.REVOKING, E.GAVE_UP): S.TAKING,
    (S.TAKING, E.TOOK): S.STABLE,
    (S.STABLE, E.REJOIN): S.PREPARING,
    (S.QUITTING, E.GAVE_UP): S.PARTING,
    (S.PARTING, E.GONE): S.LEFT,
    **{(state, E.LOST): S.PREPARING for state in _GOES_ON},
    **{(state, event): S.QUITTING for state in _GOES_ON for event in (E.QUIT, E.BROKEN)},
    # Whoever goes has nothing to lose any more.
    **{(state, event): state for state in (S.QUITTING, S.PARTING, S.LEFT) for event in (E.LOST, E.QUIT)},
}
"""Where each event leads; one that is not here can't happen in that state, and is a bug."""


class Subject(Enum):
    """The requests of a member whose answers have a meaning; the value says what each is for."""

    JOIN = "join the group"
    SYNC = "get its share"
    HEARTBEAT = "stay in the group"


class Meaning(Enum):
    """What to do after a code."""

    DONE = "done"
    AGAIN = "ask again after retry.backoff.ms"
    NAMED = "join at once under the id that the coordinator gave (KIP-394)"
    REJOIN = "join anew, as the same member"
    EXPIRED = "the generation is over without it: all is lost but the member's id"
    FORGOTTEN = "the coordinator knows no such member: all is lost"
    FATAL = "no way to go on"


_C: Final = ErrorCode
_MEANINGS: Final = {
    Subject.JOIN: {
        _C.NONE: Meaning.DONE,
        _C.MEMBER_ID_REQUIRED: Meaning.NAMED,
        _C.REBALANCE_IN_PROGRESS: Meaning.AGAIN,
        _C.UNKNOWN_MEMBER_ID: Meaning.FORGOTTEN,
        _C.ILLEGAL_GENERATION: Meaning.EXPIRED,
    },
    Subject.SYNC: {
        _C.NONE: Meaning.DONE,
        _C.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
        _C.UNKNOWN_MEMBER_ID: Meaning.FORGOTTEN,
        _C.ILLEGAL_GENERATION: Meaning.EXPIRED,
    },
    Subject.HEARTBEAT: {
        _C.NONE: Meaning.DONE,
        _C.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
        _C.UNKNOWN_MEMBER_ID: Meaning.FORGOTTEN,
        _C.ILLEGAL_GENERATION: Meaning.EXPIRED,
    },
}
_MAY_PASS: Final = {Subject.JOIN: Meaning.AGAIN, Subject.SYNC: Meaning.REJOIN, Subject.HEARTBEAT: Meaning.AGAIN}


def meaning_of(subject: Subject, code: ErrorCode | int) -> Meaning:
    """What the answer `code` to a request means: Java's tables; a code that is not known ends the membership."""
    if not isinstance(code, ErrorCode):
        return Meaning.FATAL
    return _MEANINGS[subject].get(code) or (_MAY_PASS[subject] if code.retriable else Meaning.FATAL)


def diagram() -> str:
    """The table as a Mermaid state diagram; that it may end in every state is told beside it."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, event), target in TRANSITIONS.items():
        if state is not target and event not in (E.BROKEN, E.QUIT):
            edges.setdefault((state, target), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {S.PREPARING.name}"]
    lines += [f"    {a.name} --> {b.name}: {', '.join(events)}" for (a, b), events in edges.items()]
    return "\n".join(lines)
