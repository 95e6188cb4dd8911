"""The few calls that tools and tests make to a cluster: create, delete and list topics, partitions and offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from aioprod._rights import Right
from aioprod.cluster import PartitionInfo
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aioprod.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from aioprod.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicResult
from aioprod.messages.delete_topics import DeletableTopicResult
from aioprod.messages.negotiation import ByVersion
from aioprod.net import more_telling
from aioprod.reader.offsets import At, topic_offsets
from aioprod.reader.refusals import UNKNOWN_TOPIC_CODES, refusal
from aioprod.reader.session import Session, SessionUser, check_topic_name
from aioprod.reader.settings import SessionConfig
from aioprod.types import TopicPartition
from aioprod.wire.schema import Request, Response

__all__ = ["Admin"]

ResponseT = TypeVar("ResponseT", bound=Response)

_FIRST_WITH_DEFAULTS: Final = 4
"""The CreateTopics version from which brokers choose numbers (KIP-464)."""
_CREATE_ANY: Final = "CREATE on the cluster"
_MAYBE_DONE: Final = "An earlier try of this call had no clear answer: it may have done what this one was refused."


class _Result(NamedTuple):
    """What became of one topic, with the broker's own words."""

    code: ErrorCode | int
    said: str | None


class _Aim(NamedTuple):
    """What a request is for: the sentence (without its stop) that it failed, the rights that it takes, and what serves
    `instead`."""

    failure: str
    rights: Sequence[Right] = ()
    instead: str | None = None


class DeleteByName(DeleteTopicsRequest):
    """A DeleteTopics request in the versions that only know names, which all brokers speak (KIP-516)."""

    __slots__ = ()

    VERSIONS = (1, 5)


class Admin(SessionUser):
    """Looks after topics from one event loop; use it as `async with Admin("host:9092") as admin`.

    `options` are fields of `SessionConfig` (Java's names in snake_case); they win over those of `config`. Raises
    ConfigError. Touches no network before `start()`. All calls go on trying for `default.api.timeout.ms` while brokers
    can't be reached or give errors that may pass, and raise RequestTimedOutError then. What a broker refuses raises
    AuthorizationError, InvalidTopicError, UnknownTopicError, or BrokerError with its code.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: SessionConfig | None = None,
        **options: Any,
    ) -> None:
        self.config = SessionConfig.given(config, bootstrap_servers, options)
        self._session = Session(self.config, "admin client")

    # --- topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Create a topic and wait until all of its partitions have leaders, for `timeout_s` at most.

        -1 leaves a number to the brokers, from 2.4 on; older ones raise UnsupportedVersionError. `config` has the
        topic's settings, `retention.ms` or `retention_ms`. Raises BrokerError (TOPIC_ALREADY_EXISTS) when there is one
        of that name, MetadataTimeoutError when it was created and its leaders are not known in time, AuthorizationError
        also when it was created and may not be described.
        """
        check_topic_name(name)
        deadline = self._session.clock() + timeout_s
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=(),
            configs=tuple(
                CreatableTopicConfig(name=key.replace("_", "."), value=_text(value))
                for key, value in (config or {}).items()
            ),
        )

        def result(answer: CreateTopicsResponse) -> _Result:
            return _result_for(name, answer.topics)

        def build(version: int) -> CreateTopicsRequest:
            if version < _FIRST_WITH_DEFAULTS and -1 in (partitions, replication_factor):
                raise UnsupportedVersionError(
                    f"Topic {name!r} could not be created: the broker chooses no number of partitions or replicas.",
                    hint="Give partitions and replication_factor: brokers from 2.4 on choose them (KIP-464).",
                )
            return CreateTopicsRequest(topics=(topic,), timeout_ms=round(timeout_s * 1000))

        request = ByVersion(CreateTopicsRequest, build)
        aim = _Aim(f"Topic {name!r} could not be created", [Right("CREATE", "topic", name)], _CREATE_ANY)
        await self._ask(request, result, aim, deadline)
        await self._session.wait_for_leaders(name, deadline)

    async def delete_topic(self, name: str, *, timeout_s: float = 30.0) -> None:
        """Delete a topic, for `timeout_s` at most; single brokers may know it for a moment longer."""
        check_topic_name(name)

        def result(answer: DeleteTopicsResponse) -> _Result:
            return _result_for(name, answer.responses)

        request = DeleteByName(topic_names=(name,), timeout_ms=round(timeout_s * 1000))
        deadline = self._session.clock() + timeout_s
        rights = [Right("DELETE", "topic", name)]
        await self._ask(request, result, _Aim(f"Topic {name!r} could not be deleted", rights), deadline)

    async def topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics in order, with those that belong to Kafka itself if `internal`."""
        answer = await self._metadata()
        return sorted(topic.name for topic in answer.topics if topic.name and (internal or not topic.is_internal))

    async def partition_counts(self) -> dict[str, int]:
        """How many partitions each topic has, by name; Kafka's own topics are left out."""
        answer = await self._metadata()
        return {
            topic.name: len(topic.partitions)
            for topic in sorted(answer.topics, key=lambda topic: topic.name or "")
            if topic.name and topic.partitions and not topic.is_internal
        }

    async def partitions(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic by index, as the cluster describes them now."""
        return list(await self._session.partitions(topic))

    async def topic_id(self, topic: str) -> UUID | None:
        """Another one after a topic was deleted and created again; None where brokers don't tell (before 2.8)."""
        await self._session.partitions(topic)
        return self._session.client.metadata.cluster.topic_id(topic)

    @property
    def cluster_id(self) -> str | None:
        """Which cluster this is, as it calls itself; None where it has no name (before Kafka 0.10.1)."""
        return self._session.client.metadata.cluster.cluster_id

    async def offsets(self, topic: str, at: At) -> dict[TopicPartition, int]:
        """The offset of each partition at its "earliest", its "latest", or at a time: its first record not older.

        Where all records are older that is the end. Raises ConfigError for another `at`.
        """
        return await topic_offsets(self._session, topic, at, "read_uncommitted")

    # --- asking

    async def _metadata(self) -> MetadataResponse:
        """All topics, as the cluster describes them now."""

        def result(answer: MetadataResponse) -> _Result:
            return _Result(ErrorCode.of(answer.error_code), None)

        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        deadline = self._session.clock() + self._session.timeout_s
        return await self._ask(request, result, _Aim("The topics could not be listed"), deadline)

    async def _ask(
        self,
        request: Request[ResponseT] | ByVersion[ResponseT],
        result: Callable[[ResponseT], _Result],
        aim: _Aim,
        deadline: float,
    ) -> ResponseT:
        """Ask any broker, which forwards to the controller what is its business; those before 3.0 name it instead."""
        client = self._session.client
        clock = self._session.clock
        trouble: AioprodError | None = None
        node_id: int | None = None
        maybe_done = False
        tries = 0
        patience_s = self.config.request_timeout_ms / 1000
        while (left_s := deadline - clock()) > 0.0:
            try:
                answer = await client.request(request, node_id=node_id, timeout_s=min(left_s, patience_s))
            except BrokerConnectionError as error:
                trouble = more_telling(trouble, error, was_cut_off=left_s <= patience_s)
                node_id, maybe_done = None, True
            else:
                code, said = result(answer)
                if code == ErrorCode.NONE:
                    return answer
                refused = refusal(aim.failure, code, aim.rights, said=said, instead=aim.instead)
                if code in UNKNOWN_TOPIC_CODES or not isinstance(code, ErrorCode) or not code.retriable:
                    refused.hint = refused.hint or (_MAYBE_DONE if maybe_done else None)
                    raise refused from trouble
                trouble, node_id = refused, self._controller_id() if code == ErrorCode.NOT_CONTROLLER else None
                maybe_done |= code == ErrorCode.REQUEST_TIMED_OUT
            await asyncio.sleep(min(self._session.backoff_s(tries), left_s))
            tries += 1
        last = "." if trouble is None else f": {trouble.message.removeprefix(f'{aim.failure}: ')}"
        raise RequestTimedOutError(f"{aim.failure} in time{last}") from trouble

    def _controller_id(self) -> int | None:
        """The controller as it was told last; it may have moved, so that is asked too."""
        client = self._session.client
        client.metadata.request_update(self._session.clock())
        client.wake()
        controller = client.metadata.cluster.controller
        return None if controller is None else controller.id


def _result_for(topic: str, rows: Iterable[CreatableTopicResult | DeletableTopicResult]) -> _Result:
    """The row of the only topic that was asked for."""
    for row in rows:
        if row.name == topic:
            return _Result(ErrorCode.of(row.error_code), row.error_message)
    raise ProtocolError(f"The broker's answer does not say what became of topic {topic!r}.")


def _text(value: object) -> str:
    """A setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
