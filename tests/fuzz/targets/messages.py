"""Messages: responses as a client decodes them, requests as a fake broker does, and metadata from responses."""

from __future__ import annotations

import json
from collections.abc import Iterator

from aioprod import messages
from aioprod.cluster import Metadata
from aioprod.errors import ProtocolError, UnsupportedVersionError
from aioprod.messages import ApiVersionsResponse, MetadataResponse
from aioprod.messages.negotiation import ApiVersions, decode_api_versions, retry_version
from aioprod.messages.registry import REQUESTS, REQUESTS_BY_KEY, decode_request
from aioprod.types import TopicPartition
from aioprod.wire.codec import decode, encode
from aioprod.wire.frame import encode_request
from aioprod.wire.schema import AnyRequest, Message
from tests.support.golden import GOLDEN, from_base64

__all__ = ["metadata", "metadata_seeds", "request_seeds", "requests", "response_seeds", "responses"]


def golden_messages() -> Iterator[tuple[type[Message], int, bytes]]:
    """All messages that Kafka's own classes wrote: kind, version, body."""
    for path in sorted((GOLDEN / "messages").glob("*.json")):
        for sample in json.loads(path.read_text()):
            for form in ("bytes", "bytes_unknown_tags"):
                if form in sample:
                    yield getattr(messages, sample["message"]), sample["version"], from_base64(sample[form])


# --- responses


def responses(data: bytes) -> None:
    """Input: API key, version, body. A decoded message can be encoded, and decodes to an equal one."""
    if len(data) < 2:
        return
    request = REQUESTS_BY_KEY.get(data[0]) or REQUESTS[data[0] % len(REQUESTS)]
    kind, version = request.RESPONSE, version_of(request.RESPONSE, data[1])
    body = data[2:]
    response = decode_api_versions(version, body) if kind is ApiVersionsResponse else decode(kind, version, body)
    if isinstance(response, ApiVersionsResponse):
        negotiate(response)
        return
    same_again(response, version)


def same_again(message: Message, version: int) -> None:
    """A decoded message is equal after encoding and decoding."""
    assert decode(type(message), version, encode(message, version)) == message


def negotiate(response: ApiVersionsResponse) -> None:
    """For any versions of a broker, only declared ones are picked."""
    assert 0 <= retry_version(response) <= messages.ApiVersionsRequest.VERSIONS[1]
    versions = ApiVersions.from_response(response)
    for kind in REQUESTS:
        first, last = kind.VERSIONS
        try:
            assert first <= versions.pick(kind) <= last
        except UnsupportedVersionError:
            assert not versions.supports(kind)


def version_of(kind: type[Message], byte: int) -> int:
    """A declared version of `kind` for any byte: its own, if it is one."""
    first, last = kind.VERSIONS
    return byte if first <= byte <= last else first + byte % (last - first + 1)


def response_seeds() -> Iterator[bytes]:
    """Kafka's own responses."""
    keys = {kind.RESPONSE: kind.API_KEY for kind in REQUESTS}
    for kind, version, body in golden_messages():
        for response, key in keys.items():
            if kind is response:
                yield bytes([key, version]) + body


# --- requests


def requests(data: bytes) -> None:
    """A request's frame, as a broker gets it."""
    header, message = decode_request(data)
    assert header.api_key == message.API_KEY
    same_again(message, header.version)


def request_seeds() -> Iterator[bytes]:
    """Kafka's own requests, with headers."""
    for kind, version, body in golden_messages():
        if issubclass(kind, messages.ProduceRequest) or kind in REQUESTS:
            message: AnyRequest = decode(kind, version, body)
            yield encode_request(message, version, 7, "client")[4:]


# --- metadata


def metadata(data: bytes) -> None:
    """Input: version, size of the first response in units of 8 bytes, two responses: the cluster is consistent."""
    if len(data) < 2:
        return
    version = version_of(MetadataResponse, data[0])
    known = Metadata(max_age_s=300.0, max_idle_s=100.0, backoff=lambda attempts: 1.0)
    body = data[2:]
    cut = data[1] * 8
    for now, part in enumerate((body[:cut], body[cut:])):
        try:
            answer = decode(MetadataResponse, version, part)
        except ProtocolError:
            continue
        for topic in answer.topics:
            known.add_topic(topic.name or "", float(now))
        if known.tracked:
            known.build_request(float(now), allow_auto_create=True)
        known.handle_response(answer, float(now), version=version)
        while known.is_behind:
            known.rebind()
        whole(known)


def whole(known: Metadata) -> None:
    """Partitions count up from 0, and leaders are brokers that can be reached."""
    cluster = known.cluster
    for name in cluster.topics:
        partitions = cluster.partitions_for_topic(name)
        assert [info.partition for info in partitions] == list(range(len(partitions)))
        assert set(cluster.available_partitions_for_topic(name)) <= set(partitions)
        for info in partitions:
            assert info.leader is None or info.leader in cluster.nodes
            assert cluster.leader_for(TopicPartition(name, info.partition)) == info.leader
            assert cluster.leader_epoch(TopicPartition(name, info.partition)) >= -1
    for node in cluster.nodes:
        assert all(info.leader == node for info in cluster.partitions_for_node(node.id))
    repr(cluster)


def metadata_seeds() -> Iterator[bytes]:
    """Kafka's own responses, each twice, in every version."""
    for kind, version, body in golden_messages():
        if kind is MetadataResponse:
            padding = bytes(-len(body) % 8)
            if len(body) < 255 * 8:
                yield bytes([version, (len(body) + 7) // 8]) + body + padding + body
