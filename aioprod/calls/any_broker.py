"""Requests that any broker can answer. A broker forwards those for the controller; before 3.0 it names the controller.

When some topics have failed with an error that may pass, the request is sent again for these alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from aioprod._authorization_errors import Right
from aioprod.calls.broker_errors import UNKNOWN_TOPIC_CODES, broker_error, prefer_specific_error
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, BrokerConnectionError, ErrorCode, ProtocolError, RequestTimedOutError
from aioprod.messages import MetadataRequest, MetadataResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.wire.schema import Request, Response

__all__ = ["FailureWording", "ItemResult", "all_topics", "request_any_broker", "request_for_each"]

ResponseT = TypeVar("ResponseT", bound=Response)

_MAYBE_DONE: Final = "An earlier try of this call had no clear response: it may have done what the broker rejected now."


class ItemResult(NamedTuple):
    """What a broker answered for one item of a request, such as one topic: error code (NONE if it is done), message."""

    code: ErrorCode | int
    message: str | None = None


class FailureWording(NamedTuple):
    """How the error of a request that failed is worded."""

    failure: str
    """The sentence that it failed, without its stop."""
    rights: Sequence[Right] = ()
    """The rights that the request needs."""
    instead: str | None = None
    """Another right that would do, in words."""


async def request_for_each(
    session: Session,
    topics: Iterable[str],
    build: Callable[[Sequence[str]], Request[ResponseT] | ByVersion[ResponseT]],
    results: Callable[[ResponseT], Mapping[str, ItemResult]],
    wording: Callable[[str], FailureWording],
    deadline: float,
    *,
    node_id: int | None = None,
) -> dict[str, AioprodError]:
    """Send a request that does something for each topic; returns the errors of those that failed.

    `node_id`: the only broker to use. Errors that may pass are retried until `deadline` (monotonic seconds). Raises
    what `Client.request` raises, but for BrokerConnectionError.
    """
    pending = _Tries(session, topics, wording, node_id)
    patience_s = session.config.request_timeout_ms / 1000
    tries = 0
    while pending.left and (left_s := deadline - session.clock()) > 0.0:
        request = build(tuple(pending.left))
        try:
            response = await session.client.request(request, node_id=pending.node_id, timeout_s=min(left_s, patience_s))
        except BrokerConnectionError as error:
            pending.request_failed(error, was_cut_off=left_s <= patience_s)
        else:
            pending.response_received(results(response))
        if pending.left:
            await asyncio.sleep(min(session.backoff_s(tries), left_s))
            tries += 1
    pending.time_out()
    return pending.failures


async def request_any_broker(
    session: Session,
    request: Request[ResponseT] | ByVersion[ResponseT],
    result: Callable[[ResponseT], ItemResult],
    wording: FailureWording,
    deadline: float,
    *,
    node_id: int | None = None,
) -> ResponseT:
    """The response to a request that is not for single topics; raises its error, and what `request_for_each` raises."""
    responses: list[ResponseT] = []

    def results(response: ResponseT) -> dict[str, ItemResult]:
        responses.append(response)
        return {"": result(response)}

    failures = await request_for_each(
        session, [""], lambda _: request, results, lambda _: wording, deadline, node_id=node_id
    )
    for failure in failures.values():
        raise failure
    return responses[-1]


async def all_topics(session: Session, deadline: float) -> MetadataResponse:
    """All topics that this client may describe, with their partitions; raises RequestTimedOutError."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    wording = FailureWording("The topics could not be listed")
    return await request_any_broker(
        session, request, lambda response: ItemResult(ErrorCode.of(response.error_code)), wording, deadline
    )


class _Tries:
    """The topics that are not done yet, with their last errors, and the failures."""

    def __init__(
        self, session: Session, topics: Iterable[str], wording: Callable[[str], FailureWording], node_id: int | None
    ) -> None:
        self.left: dict[str, AioprodError | None] = dict.fromkeys(topics)
        self.failures: dict[str, AioprodError] = {}
        self.node_id = self._only = node_id
        self._session = session
        self._wording_of = wording
        self._maybe_done: set[str] = set()

    def request_failed(self, error: BrokerConnectionError, *, was_cut_off: bool) -> None:
        """There is no response: the broker may or may not have done it."""
        for topic, last_error in self.left.items():
            self.left[topic] = prefer_specific_error(last_error, error, was_cut_off=was_cut_off)
        self._maybe_done.update(self.left)
        self.node_id = self._only

    def response_received(self, results: Mapping[str, ItemResult]) -> None:
        """Note which topics are done and which failed; the others are left for another try."""
        self.node_id = self._only
        for topic, last_error in list(self.left.items()):
            result = results.get(topic)
            if result is None:
                self._fail(topic, ProtocolError(f"The broker's response does not contain topic {topic!r}."))
            elif result.code == ErrorCode.NONE:
                del self.left[topic]
            else:
                self._rejected(topic, result, last_error)

    def _rejected(self, topic: str, result: ItemResult, last_error: AioprodError | None) -> None:
        code, message = result
        wording = self._wording_of(topic)
        # Kafka's own message speaks of "this server", which is any broker here.
        message = "there is no such topic" if code in UNKNOWN_TOPIC_CODES else message
        error = broker_error(wording.failure, code, wording.rights, message=message, instead=wording.instead)
        if code in UNKNOWN_TOPIC_CODES or not isinstance(code, ErrorCode) or not code.retriable:
            error.hint = error.hint or (_MAYBE_DONE if topic in self._maybe_done else None)
            error.__cause__ = last_error
            self._fail(topic, error)
            return
        self.left[topic] = error
        if code == ErrorCode.NOT_CONTROLLER:
            self.node_id = self._controller_id()
        elif code == ErrorCode.REQUEST_TIMED_OUT:
            self._maybe_done.add(topic)

    def _fail(self, topic: str, error: AioprodError) -> None:
        del self.left[topic]
        self.failures[topic] = error

    def time_out(self) -> None:
        """Fail the remaining topics: there is no time for another try."""
        for topic, last_error in list(self.left.items()):
            failure = self._wording_of(topic).failure
            last = "." if last_error is None else f": {last_error.message.removeprefix(f'{failure}: ')}"
            error = RequestTimedOutError(f"{failure} in time{last}")
            error.__cause__ = last_error
            self._fail(topic, error)

    def _controller_id(self) -> int | None:
        """The controller of the present metadata, which is refreshed, since the controller may have moved."""
        client = self._session.client
        client.metadata.request_update(self._session.clock())
        controller = client.metadata.cluster.controller
        return None if controller is None else controller.id
