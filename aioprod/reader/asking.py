"""Asking any broker, which forwards to the controller what is its business; those before 3.0 name it instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from aioprod._rights import Right
from aioprod.errors import AioprodError, BrokerConnectionError, ErrorCode, ProtocolError, RequestTimedOutError
from aioprod.messages import MetadataRequest, MetadataResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.net.broker_errors import UNKNOWN_TOPIC_CODES, broker_error
from aioprod.net.retries import prefer_specific_error
from aioprod.net.session import Session
from aioprod.wire.schema import Request, Response

__all__ = ["Aim", "Outcome", "all_topics", "ask", "ask_for_each"]

ResponseT = TypeVar("ResponseT", bound=Response)

_MAYBE_DONE: Final = "An earlier try of this call had no clear answer: it may have done what this one was refused."


class Outcome(NamedTuple):
    """What a broker says became of one thing, with its own words."""

    code: ErrorCode | int
    said: str | None = None


class Aim(NamedTuple):
    """What a request is for: the sentence (without its stop) that it failed, the rights that it takes, and what serves
    `instead`."""

    failure: str
    rights: Sequence[Right] = ()
    instead: str | None = None


async def ask_for_each(
    session: Session,
    topics: Iterable[str],
    build: Callable[[Sequence[str]], Request[ResponseT] | ByVersion[ResponseT]],
    outcomes: Callable[[ResponseT], Mapping[str, Outcome]],
    aim: Callable[[str], Aim],
    deadline: float,
    *,
    node_id: int | None = None,
) -> dict[str, AioprodError]:
    """Have something done for each topic, all in one request; those that failed, with why.

    `node_id`: only this broker is asked. What may pass is tried again until `deadline` (monotonic seconds). Raises
    what `Client.request` raises, but for BrokerConnectionError.
    """
    asking = _Asking(session, topics, aim, node_id)
    patience_s = session.config.request_timeout_ms / 1000
    tries = 0
    while asking.left and (left_s := deadline - session.clock()) > 0.0:
        request = build(tuple(asking.left))
        try:
            answer = await session.client.request(request, node_id=asking.node_id, timeout_s=min(left_s, patience_s))
        except BrokerConnectionError as error:
            asking.unanswered(error, was_cut_off=left_s <= patience_s)
        else:
            asking.answered(outcomes(answer))
        if asking.left:
            await asyncio.sleep(min(session.backoff_s(tries), left_s))
            tries += 1
    asking.give_up()
    return asking.failures


async def ask(
    session: Session,
    request: Request[ResponseT] | ByVersion[ResponseT],
    outcome: Callable[[ResponseT], Outcome],
    aim: Aim,
    deadline: float,
    *,
    node_id: int | None = None,
) -> ResponseT:
    """The answer to a request that is not for single topics; raises why there is none, and what `ask_for_each` does."""
    answers: list[ResponseT] = []

    def outcomes(answer: ResponseT) -> dict[str, Outcome]:
        answers.append(answer)
        return {"": outcome(answer)}

    failures = await ask_for_each(session, [""], lambda _: request, outcomes, lambda _: aim, deadline, node_id=node_id)
    for failure in failures.values():
        raise failure
    return answers[-1]


async def all_topics(session: Session, deadline: float) -> MetadataResponse:
    """All topics that this client may describe, with their partitions; raises RequestTimedOutError."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    aim = Aim("The topics could not be listed")
    return await ask(session, request, lambda answer: Outcome(ErrorCode.of(answer.error_code)), aim, deadline)


class _Asking:
    """What is still to be done, and what came of the tries."""

    def __init__(self, session: Session, topics: Iterable[str], aim: Callable[[str], Aim], node_id: int | None) -> None:
        self.left: dict[str, AioprodError | None] = dict.fromkeys(topics)
        self.failures: dict[str, AioprodError] = {}
        self.node_id = self._only = node_id
        self._session = session
        self._aim = aim
        self._maybe_done: set[str] = set()

    def unanswered(self, error: BrokerConnectionError, *, was_cut_off: bool) -> None:
        """Nobody knows what was done."""
        for topic, trouble in self.left.items():
            self.left[topic] = prefer_specific_error(trouble, error, was_cut_off=was_cut_off)
        self._maybe_done.update(self.left)
        self.node_id = self._only

    def answered(self, outcomes: Mapping[str, Outcome]) -> None:
        """Some are done, some failed, the others are for another try."""
        self.node_id = self._only
        for topic, trouble in list(self.left.items()):
            outcome = outcomes.get(topic)
            if outcome is None:
                self._fail(topic, ProtocolError(f"The broker's answer does not say what became of topic {topic!r}."))
            elif outcome.code == ErrorCode.NONE:
                del self.left[topic]
            else:
                self._refused(topic, outcome, trouble)

    def _refused(self, topic: str, outcome: Outcome, trouble: AioprodError | None) -> None:
        code, said = outcome
        aim = self._aim(topic)
        # Kafka's own words for it are about "this server", which is any broker here.
        said = "there is no such topic" if code in UNKNOWN_TOPIC_CODES else said
        refused = broker_error(aim.failure, code, aim.rights, said=said, instead=aim.instead)
        if code in UNKNOWN_TOPIC_CODES or not isinstance(code, ErrorCode) or not code.retriable:
            refused.hint = refused.hint or (_MAYBE_DONE if topic in self._maybe_done else None)
            refused.__cause__ = trouble
            self._fail(topic, refused)
            return
        self.left[topic] = refused
        if code == ErrorCode.NOT_CONTROLLER:
            self.node_id = self._controller_id()
        elif code == ErrorCode.REQUEST_TIMED_OUT:
            self._maybe_done.add(topic)

    def _fail(self, topic: str, error: AioprodError) -> None:
        del self.left[topic]
        self.failures[topic] = error

    def give_up(self) -> None:
        """There is no time for another try."""
        for topic, trouble in list(self.left.items()):
            failure = self._aim(topic).failure
            last = "." if trouble is None else f": {trouble.message.removeprefix(f'{failure}: ')}"
            error = RequestTimedOutError(f"{failure} in time{last}")
            error.__cause__ = trouble
            self._fail(topic, error)

    def _controller_id(self) -> int | None:
        """The controller as it was told last; it may have moved, so that is asked too."""
        client = self._session.client
        client.metadata.request_update(self._session.clock())
        client.wake()
        controller = client.metadata.cluster.controller
        return None if controller is None else controller.id
