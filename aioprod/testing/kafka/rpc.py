"""The requests that a `KafkaCluster` makes itself, each on its own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar, cast

from aioprod.errors import BrokerError, ErrorCode, ProtocolError
from aioprod.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from aioprod.messages.create_topics import CreatableTopic, CreatableTopicConfig
from aioprod.messages.delete_topics import DeletableTopicResult, DeleteTopicState
from aioprod.messages.metadata import MetadataRequestTopic, MetadataResponse
from aioprod.messages.negotiation import ApiVersions
from aioprod.testing.acls import Acl
from aioprod.testing.kafka.acl_requests import CreateAclsRequest, DescribeAclsRequest, creation_of, described
from aioprod.wire.codec import decode
from aioprod.wire.frame import FRAME_SIZE_MAX, decode_response_header, encode_request
from aioprod.wire.schema import Request, Response

__all__ = [
    "Address",
    "Login",
    "acls_known",
    "brokers_seen",
    "call",
    "create_acls",
    "create_topic",
    "delete_topic",
    "topic_ready",
]

ResponseT = TypeVar("ResponseT", bound=Response)

_CALL_TIMEOUT_S: Final = 10.0
_MESSAGE_SIZE_MAX: Final = 200
"""How many characters of a broker's message go into an error: it may be a page."""


class Login(NamedTuple):
    """User and password for PLAIN."""

    user: str
    password: str


class Address(NamedTuple):
    """A broker's listener, and the log-in there, None for none."""

    host: str
    port: int
    login: Login | None = None


async def call(address: Address, request: Request[ResponseT]) -> ResponseT:
    """Send a request in the newest version that both sides support, and return the response.

    Raises OSError (TimeoutError after 10 s), ProtocolError, UnsupportedVersionError; BrokerError for a failed log-in.
    """
    async with asyncio.timeout(_CALL_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            versions = await _exchange(reader, writer, ApiVersionsRequest(), 0)
            if address.login is not None:
                await _log_in(reader, writer, address.login)
            return await _exchange(reader, writer, request, ApiVersions.from_response(versions).pick(type(request)))
        finally:
            writer.transport.abort()


async def _log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, login: Login) -> None:
    chosen = await _exchange(reader, writer, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = f"\0{login.user}\0{login.password}".encode()
    code = (
        chosen.error_code or (await _exchange(reader, writer, SaslAuthenticateRequest(auth_bytes=token), 1)).error_code
    )
    _check(f"User {login.user!r} could not log in", code, None)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request[ResponseT], version: int
) -> ResponseT:
    writer.write(encode_request(request, version, 0, "aioprod.testing"))
    try:
        size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
        if not 0 <= size <= FRAME_SIZE_MAX:
            raise ProtocolError(f"The peer announces a frame of {size} bytes.")
        frame = await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("the broker closed the connection") from error
    _, body = decode_response_header(request.RESPONSE, version, frame)
    return decode(cast(type[ResponseT], request.RESPONSE), version, body)


async def brokers_seen(address: Address) -> frozenset[int]:
    """The ids of the brokers that the one at `address` knows to be up."""
    answer = await call(address, MetadataRequest(topics=()))
    return frozenset(broker.node_id for broker in answer.brokers)


async def create_topic(
    address: Address, name: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]
) -> None:
    """Create a topic; raises BrokerError when the cluster rejects the request."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in config.items()),
    )
    answer = await call(address, CreateTopicsRequest(topics=(topic,), timeout_ms=int(_CALL_TIMEOUT_S * 1000)))
    _check(f"Topic {name!r} could not be created", answer.topics[0].error_code, answer.topics[0].error_message)


async def delete_topic(address: Address, name: str) -> None:
    """Delete a topic; raises BrokerError when the cluster rejects the request."""
    request = DeleteTopicsRequest(
        topics=(DeleteTopicState(name=name),), topic_names=(name,), timeout_ms=int(_CALL_TIMEOUT_S * 1000)
    )
    result: DeletableTopicResult = (await call(address, request)).responses[0]
    _check(f"Topic {name!r} could not be deleted", result.error_code, result.error_message)


async def topic_ready(address: Address, name: str, partitions: int) -> bool:
    """Whether the broker at `address` knows a leader for each of the topic's `partitions`."""
    wanted = MetadataRequestTopic(name=name)
    answer: MetadataResponse = await call(address, MetadataRequest(topics=(wanted,), allow_auto_topic_creation=False))
    known = answer.topics[0].partitions
    return len(known) == partitions and all(partition.leader_id >= 0 for partition in known)


async def create_acls(address: Address, acls: Iterable[Acl]) -> None:
    """Create ACLs; raises BrokerError when the cluster rejects one."""
    wanted = list(acls)
    answer = await call(address, CreateAclsRequest(creations=tuple(map(creation_of, wanted))))
    for acl, result in zip(wanted, answer.results, strict=True):
        _check(f"{acl} could not be created", result.error_code, result.error_message)


async def acls_known(address: Address, acls: Iterable[Acl]) -> bool:
    """Whether the authorizer of the broker or controller at `address` has these ACLs."""
    answer = await call(address, DescribeAclsRequest())
    _check("The ACLs could not be listed", answer.error_code, answer.error_message)
    return set(described(answer)).issuperset(map(creation_of, acls))


def _check(failure: str, error_code: int, message: str | None) -> None:
    if error_code != ErrorCode.NONE:
        code = ErrorCode.of(error_code)
        reason = (message or ErrorCode.name_of(code))[:_MESSAGE_SIZE_MAX].rstrip(".")
        raise BrokerError(f"{failure}: {reason}.", code=code)
