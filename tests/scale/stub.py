"""A large cluster that costs next to nothing: all brokers are addresses of one process with prepared answers.

`python -m tests.scale.stub BROKERS TOPICS PARTITIONS` prints its first address, and ends with its standard input. It
answers ApiVersions, Metadata, InitProducerId and Produce; what it received is printed as JSON when it ends.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import uuid
from typing import Final

from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from aioprod.messages.api_versions import ApiVersion
from aioprod.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from aioprod.messages.produce import PartitionProduceResponse, TopicProduceResponse
from aioprod.messages.registry import decode_request
from aioprod.wire.frame import FrameSplitter, encode_response
from aioprod.wire.schema import AnyRequest, Response

__all__ = ["Stub", "address_of", "topic_name"]

REPLICAS: Final = 3
ANSWERED: Final = (ApiVersionsRequest, MetadataRequest, InitProducerIdRequest, ProduceRequest)
PRODUCE_VERSION: Final = 12
"""The newest Produce version with topic names, which keeps the answers short to write."""


def address_of(broker: int) -> str:
    """The loopback address of a broker, all of which share one port."""
    return f"127.1.{broker // 250}.{broker % 250 + 1}"


def topic_name(index: int) -> str:
    """The name of a topic."""
    return f"topic-{index:03}"


class Stub:
    """The cluster: `requests` and `sent` count the requests and the bytes of their answers by name."""

    def __init__(self, brokers: int, topics: int, partitions: int) -> None:
        self.brokers = brokers
        self.partitions = partitions
        self.port = 0
        self.connections = 0
        self.requests: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self._topics = {topic_name(index): self._topic(index) for index in range(topics)}
        self._metadata: dict[tuple[str, ...], bytes] = {}
        self._servers: list[asyncio.Server] = []

    def _topic(self, index: int) -> MetadataResponseTopic:
        rows = tuple(self._partition(index * self.partitions + number, number) for number in range(self.partitions))
        return MetadataResponseTopic(name=topic_name(index), topic_id=uuid.UUID(int=index + 1), partitions=rows)

    def _partition(self, place: int, number: int) -> MetadataResponsePartition:
        nodes = tuple((place + step) % self.brokers for step in range(min(REPLICAS, self.brokers)))
        return MetadataResponsePartition(
            partition_index=number, leader_id=nodes[0], leader_epoch=1, replica_nodes=nodes, isr_nodes=nodes
        )

    async def start(self) -> None:
        """Listen at the addresses of all brokers, on one port."""
        loop = asyncio.get_running_loop()
        for broker in range(self.brokers):
            listening = socket.socket()
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((address_of(broker), self.port))
            self.port = listening.getsockname()[1]
            self._servers.append(await loop.create_server(lambda: _Connection(self), sock=listening))

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()

    def answer(self, payload: memoryview) -> bytes:
        """The frame that answers a request."""
        header, request = decode_request(payload)
        name = type(request).NAME
        self.requests[name] = self.requests.get(name, 0) + 1
        if isinstance(request, MetadataRequest):
            frame = self._metadata_frame(request, header.version, header.correlation_id)
        else:
            frame = encode_response(self._response(request), header.version, header.correlation_id)
        self.sent[name] = self.sent.get(name, 0) + len(frame)
        return frame

    def _metadata_frame(self, request: MetadataRequest, version: int, correlation_id: int) -> bytes:
        """Encoded once for the same topics: that takes longer than to read it."""
        names = tuple(topic.name or "" for topic in request.topics or ())
        frame = self._metadata.get((str(version), *names))
        if frame is None:
            frame = self._metadata[str(version), *names] = encode_response(self._response(request), version, 0)
        return frame[:4] + correlation_id.to_bytes(4, "big") + frame[8:]

    def _response(self, request: AnyRequest) -> Response:
        if isinstance(request, ApiVersionsRequest):
            highest: dict[type[AnyRequest], int] = {ProduceRequest: PRODUCE_VERSION}
            rows = [(kind.API_KEY, kind.VERSIONS[0], highest.get(kind, kind.VERSIONS[1])) for kind in ANSWERED]
            keys = tuple(ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in rows)
            return ApiVersionsResponse(api_keys=keys)
        if isinstance(request, MetadataRequest):
            return MetadataResponse(
                brokers=tuple(
                    MetadataResponseBroker(node_id=broker, host=address_of(broker), port=self.port)
                    for broker in range(self.brokers)
                ),
                cluster_id="stub",
                controller_id=0,
                topics=tuple(self._topics[topic.name or ""] for topic in request.topics or ()),
            )
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=1, producer_epoch=0)
        assert isinstance(request, ProduceRequest)
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    partition_responses=tuple(
                        PartitionProduceResponse(index=row.index, base_offset=0) for row in topic.partition_data
                    ),
                )
                for topic in request.topic_data
            )
        )


class _Connection(asyncio.Protocol):
    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._stub.connections += 1

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        for frame in self._splitter.feed(data):
            self._transport.write(self._stub.answer(frame))


async def serve(brokers: int, topics: int, partitions: int) -> None:
    """Serve until the standard input ends."""
    stub = Stub(brokers, topics, partitions)
    await stub.start()
    print(f"{address_of(0)}:{stub.port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    stub.close()
    print(json.dumps({"connections": stub.connections, "requests": stub.requests, "sent": stub.sent}), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:4])))
