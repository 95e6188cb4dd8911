"""DeleteTopics (key 20): delete topics.

Versions: 4 flexible; 5 error messages; 6 by name or by id in `topics`, before that by name in `topic_names`.
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import INT16, INT32, STRING, TEXT, UUID, Request, Response, Struct, array, wire

__all__ = ["DeletableTopicResult", "DeleteTopicState", "DeleteTopicsRequest", "DeleteTopicsResponse"]


class DeletableTopicResult(Struct):
    """One topic; the name is None if the request named an unknown id."""

    name: str | None = wire(STRING, nullable="6+")
    topic_id: uuid.UUID = wire(UUID, "6+", ignorable=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, "5+", nullable="0+", default=None, ignorable=True)


class DeleteTopicsResponse(Response):
    """The outcome for each topic."""

    API_KEY = 20
    NAME = "DeleteTopics"
    VERSIONS = (1, 6)
    FLEXIBLE = 4

    throttle_time_ms: int = wire(INT32)
    responses: tuple[DeletableTopicResult, ...] = wire(array(DeletableTopicResult))


class DeleteTopicState(Struct):
    """One topic, by name or by id, not both."""

    name: str | None = wire(STRING, nullable="0+", default=None)
    topic_id: uuid.UUID = wire(UUID)


class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Topics to delete: `topic_names` up to version 5, `topics` from 6 on."""

    API_KEY = 20
    NAME = "DeleteTopics"
    VERSIONS = (1, 6)
    FLEXIBLE = 4
    RESPONSE = DeleteTopicsResponse

    topics: tuple[DeleteTopicState, ...] = wire(array(DeleteTopicState), "6+")
    topic_names: tuple[str, ...] = wire(array(STRING), "0-5", ignorable=True)
    timeout_ms: int = wire(INT32)
