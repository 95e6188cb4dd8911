"""The marker that is committed with each step: which steps of whose job were committed under a transactional id.

It is the marker of `aioprod.relay`, without a position: one more than the number of the last step that was committed,
and the owner. There is no other durable state.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod.errors import ConfigError, UsageError
from aioprod.relay.marker import Marker, group_of
from aioprod.types import OffsetAndMetadata

__all__ = ["Action", "Policy", "check_owner", "decide", "group_of", "marker_of"]

_OWNER_BYTES_MAX: Final = 4096
"""What brokers take as the metadata of an offset (`offset.metadata.max.bytes`)."""


class Action(Enum):
    """What is to be done about a step."""

    WRITE = "write it"
    SKIP = "it was committed"
    MARK = "it is taken for committed: only the marker is missing"


class Policy(Enum):
    """What to think of a step that is not the first one where the marker is missing."""

    REFUSE = "refuse"
    ASSUME_COMMITTED = "assume-committed"
    ASSUME_NOT_COMMITTED = "assume-not-committed"

    @classmethod
    def of(cls, given: str) -> Policy:
        """Read an option; raises ConfigError."""
        try:
            return cls(given)
        except ValueError:
            known = ", ".join(repr(one.value) for one in cls)
            raise ConfigError(f"when_marker_is_missing is {given!r}: it must be one of {known}.") from None


def marker_of(step: int, owner: str) -> OffsetAndMetadata:
    """What is committed with a step."""
    return Marker(step + 1, owner).to_offset()


def check_owner(owner: str) -> str:
    """Raise ConfigError for an owner that no marker can hold."""
    if not owner or len(owner.encode()) > _OWNER_BYTES_MAX:
        raise ConfigError(f"The owner of a transactional.id must have 1 to {_OWNER_BYTES_MAX} bytes.")
    return owner


def decide(found: OffsetAndMetadata | None, step: int, owner: str, policy: Policy, transactional_id: str) -> Action:
    """What is to be done about `step` (from 0) of `owner`, by the marker that was read after all others were fenced.

    Raises UsageError where it is another's marker, or one that can't be: nothing is ever skipped on a guess.
    """
    if found is None:
        return Action.WRITE if step == 0 else _missing(step, policy, transactional_id)
    if found.metadata != owner:
        raise UsageError(
            f"The transactional.id {transactional_id!r} belongs to another query or run: its marker is of "
            f"{found.metadata!r}, this is {owner!r}.",
            hint="Give each query, each checkpoint and each run an id of its own. If the other one is over for good, "
            f"delete its marker: aioprod groups delete {group_of(transactional_id)}",
        )
    if found.offset > step:
        return Action.SKIP
    if found.offset < step and policy is not Policy.ASSUME_NOT_COMMITTED:
        raise UsageError(
            f"Step {step} of {transactional_id!r} can't be written: the marker says that {found.offset} is the next "
            f"one, so that {step - found.offset} are missing.",
            hint="Was the checkpoint, or Kafka, restored from a copy? when_marker_is_missing='assume-not-committed' "
            "continues at this step.",
        )
    return Action.WRITE


def _missing(step: int, policy: Policy, transactional_id: str) -> Action:
    if policy is Policy.REFUSE:
        raise UsageError(
            f"Whether step {step} of {transactional_id!r} was committed is not known: its marker, an offset of the "
            f"group {group_of(transactional_id)!r}, is gone.",
            hint="It goes with its topic, and after offsets.retention.minutes without a commit. Look whether the rows "
            "of this step are in the topic, and start once with when_marker_is_missing='assume-committed' or "
            "'assume-not-committed'.",
        )
    return Action.MARK if policy is Policy.ASSUME_COMMITTED else Action.WRITE
