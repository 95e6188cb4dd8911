"""Why nothing can be sent to a topic, or read from it, as the cluster says."""

from __future__ import annotations

from typing import Final

from aioprod.cluster.metadata import Metadata
from aioprod.errors import AioprodError, AuthorizationError, ErrorCode, InvalidTopicError, UnknownTopicError

__all__ = ["UNKNOWN_ATTEMPTS", "UNKNOWN_S", "topic_refusal"]

UNKNOWN_ATTEMPTS: Final = 4
"""A topic does not exist when this many answers in a row say so: of a new one not every broker knows at once."""

UNKNOWN_S: Final = 2.0
"""Where brokers may create the topic those answers have to span this time: they go on until it has a leader."""


def topic_refusal(metadata: Metadata, topic: str, now: float, *, to_write: bool) -> AioprodError | None:
    """The reason why a topic can't be used, None while there is hope.

    `to_write`: for somebody who writes to it, for whom brokers may create it; else for somebody who reads it. The class
    is AuthorizationError, InvalidTopicError or UnknownTopicError.
    """
    code = metadata.topic_error(topic)
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return AuthorizationError(
            f"The cluster does not let this client see topic {topic!r}.",
            resource=topic,
            hint="Allow it to describe and write to the topic (ACLs DESCRIBE and WRITE)."
            if to_write
            else "Allow it to describe and read the topic (ACLs DESCRIBE and READ).",
        )
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return InvalidTopicError(f"The cluster refuses {topic!r} as the name of a topic.")
    if metadata.unknown_attempts(topic) < UNKNOWN_ATTEMPTS:
        return None
    if not to_write:
        return UnknownTopicError(f"Topic {topic!r} does not exist.", hint="Check its name, or create it.")
    since = metadata.unknown_since(topic)
    if since is None or now - since < UNKNOWN_S:
        return None
    return UnknownTopicError(
        f"Topic {topic!r} does not exist, and the cluster does not create it.",
        hint="Check its name, create it, or set auto.create.topics.enable=true on the brokers.",
    )
