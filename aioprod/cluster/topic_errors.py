"""The error for a topic that can't be written or read, by its metadata."""

from __future__ import annotations

from typing import Final

from aioprod._authorization_errors import Right, authorization_error
from aioprod.cluster.metadata import Metadata
from aioprod.errors import AioprodError, ErrorCode, InvalidTopicError, UnknownTopicError

__all__ = ["FRESH_S", "UNKNOWN_ATTEMPTS", "UNKNOWN_S", "deletion", "topic_error"]

UNKNOWN_ATTEMPTS: Final = 4
"""So many responses in a row must say that a topic does not exist: not all brokers learn of a new topic at once."""

UNKNOWN_S: Final = 2.0
"""So long must be between the first and the last of them where brokers may create the topic: it exists before it has a
leader."""

FRESH_S: Final = 5.0
"""How long such a response counts: the topic may have been created since."""

_CREATED: Final = "If there is no such topic, it has to be created first."
_CREATED_BY_WRITER: Final = "If there is no such topic, create it, or allow CREATE on it where brokers create topics."


def topic_error(metadata: Metadata, topic: str, now: float, *, to_write: bool) -> AioprodError | None:
    """The error for a topic that can't be used; None if it can, or may soon.

    `to_write`: the caller is a writer, so that brokers may create the topic, else a reader. The class is
    AuthorizationError, InvalidTopicError or UnknownTopicError.
    """
    code = metadata.topic_error(topic) or ErrorCode.NONE
    denied = authorization_error(
        f"Topic {topic!r} does not exist, or this client may not describe it: "
        f"{ErrorCode.name_of(code)} stands for both.",
        code,
        [Right("DESCRIBE", "topic", topic), Right("WRITE" if to_write else "READ", "topic", topic)],
    )
    if denied is not None:
        denied.hint = f"{denied.hint} {_CREATED_BY_WRITER if to_write else _CREATED}"
        return denied
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return InvalidTopicError(f"The brokers reject {topic!r} as a topic name.")
    if metadata.unknown_attempts(topic) < UNKNOWN_ATTEMPTS:
        return None
    if not to_write:
        return UnknownTopicError(f"Topic {topic!r} does not exist.", hint="Check its name, or create it.")
    if not _is_absent(metadata, topic, now):
        return None
    return deletion(metadata, topic, now) or UnknownTopicError(
        f"Topic {topic!r} does not exist, and the cluster does not create it.",
        hint="Check its name, create it, or set auto.create.topics.enable=true on the brokers.",
    )


def deletion(metadata: Metadata, topic: str, now: float) -> UnknownTopicError | None:
    """The error for records of a topic that was deleted, else None: its partitions were known, and now it is unknown.

    Several responses in a row have to say so, over some time: a broker may lag behind.
    """
    since = metadata.unknown_since(topic)
    if since is None or not _is_absent(metadata, topic, now) or not metadata.cluster.partition_count(topic):
        return None
    return UnknownTopicError(
        f"Topic {topic!r} was deleted: brokers have not known it for {now - since:.1f} s.",
        hint="Create it again, or send to another topic.",
    )


def _is_absent(metadata: Metadata, topic: str, now: float) -> bool:
    """Whether enough responses, over enough time and recent enough, say that a topic does not exist."""
    since = metadata.unknown_since(topic)
    return (
        since is not None
        and metadata.unknown_attempts(topic) >= UNKNOWN_ATTEMPTS
        and now - since >= UNKNOWN_S
        and now - metadata.answered_at(topic) <= FRESH_S
    )
