"""Brokers that take what producers send, and keep nothing: `python -m benchmarks.distance.sink TOPIC PARTITIONS DELAY`.

Three brokers in one process. Each answers a request `DELAY` seconds after it was read, in order, and reads on
meanwhile, as a broker seems to do that is so far away. A request is parsed as far as its answer needs. The process
prints its address, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import uvloop

from aioprod.errors import ErrorCode, UnsupportedVersionError
from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from aioprod.messages.api_versions import ApiVersion
from aioprod.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from aioprod.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceResponse
from aioprod.messages.registry import decode_request
from aioprod.records.layout import LAST_OFFSET_DELTA
from aioprod.wire.frame import FrameSplitter, encode_response
from aioprod.wire.schema import AnyRequest, Response

__all__ = ["BROKERS", "Sink", "main"]

BROKERS: Final = 3
_HOST: Final = "127.0.0.1"
_TOPIC_ID: Final = uuid.UUID(int=36)
# Without Fetch librdkafka takes a broker for one that knows only the oldest format of records.
_SPOKEN: Final[tuple[type[AnyRequest], ...]] = (
    ApiVersionsRequest,
    FetchRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
)
_VERSIONS: Final = tuple(
    ApiVersion(api_key=kind.API_KEY, min_version=kind.VERSIONS[0], max_version=kind.STABLE_MAX or kind.VERSIONS[1])
    for kind in _SPOKEN
)


class Sink:
    """The brokers, which listen within `async with`; the topic's partitions take turns between them."""

    def __init__(self, topic: str, partitions: int, delay_s: float = 0.0) -> None:
        self.requests = 0
        """How many were read."""
        self._topic = topic
        self._delay_s = delay_s
        self._offsets = [0] * partitions
        self._producers = 0
        self._servers: list[asyncio.Server] = []
        self._ports: dict[int, int] = {}

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for node_id in range(1, BROKERS + 1):
            server = await loop.create_server(lambda: _Connection(self.answer, self._delay_s), _HOST, 0)
            self._servers.append(server)
            self._ports[node_id] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers."""
        return ",".join(f"{_HOST}:{port}" for port in self._ports.values())

    def answer(self, frame: memoryview) -> bytes:
        """The frame of the answer to a request; empty for acks=0, which has none."""
        self.requests += 1
        try:
            header, request = decode_request(frame)
        except UnsupportedVersionError:
            # Of ApiVersions, whose next version a client tries first.
            versions = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_VERSIONS)
            return encode_response(versions, 0, int.from_bytes(frame[4:8]))
        if isinstance(request, ProduceRequest):
            answer: Response = self._produced(request)
            if request.acks == 0:
                return b""
        elif isinstance(request, MetadataRequest):
            answer = self._metadata()
        elif isinstance(request, InitProducerIdRequest):
            self._producers += 1
            answer = InitProducerIdResponse(error_code=0, producer_id=self._producers, producer_epoch=0)
        else:
            answer = ApiVersionsResponse(api_keys=_VERSIONS)
        return encode_response(answer, header.version, header.correlation_id)

    def _produced(self, request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(map(self._stored, topic.partition_data)),
                )
                for topic in request.topic_data
            )
        )

    def _stored(self, data: PartitionProduceData) -> PartitionProduceResponse:
        offset = self._offsets[data.index]
        assert data.records is not None
        self._offsets[data.index] += 1 + int.from_bytes(data.records[LAST_OFFSET_DELTA : LAST_OFFSET_DELTA + 4])
        return PartitionProduceResponse(index=data.index, base_offset=offset, log_start_offset=0)

    def _metadata(self) -> MetadataResponse:
        nodes = tuple(self._ports)
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=nodes[index % BROKERS],
                leader_epoch=0,
                replica_nodes=nodes,
                isr_nodes=nodes,
            )
            for index in range(len(self._offsets))
        )
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=node_id, host=_HOST, port=port) for node_id, port in self._ports.items()
            ),
            cluster_id="distance",
            controller_id=nodes[0],
            topics=(MetadataResponseTopic(name=self._topic, topic_id=_TOPIC_ID, partitions=partitions),),
        )


class _Connection(asyncio.BufferedProtocol):
    """Requests are read as they come; each answer waits until it is due."""

    _transport: Any

    def __init__(self, answer: Callable[[memoryview], bytes], delay_s: float) -> None:
        self._answer = answer
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._frames = FrameSplitter()
        self._due: deque[tuple[float, bytes]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._due.clear()

    def get_buffer(self, size: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, count: int) -> None:
        for frame in self._frames.received(count):
            if answer := self._answer(frame):
                self._write_later(answer)

    def _write_later(self, answer: bytes) -> None:
        if not self._delay_s:
            self._transport.write(answer)
            return
        at = self._loop.time() + self._delay_s
        if not self._due:
            self._loop.call_at(at, self._write)
        self._due.append((at, answer))

    def _write(self) -> None:
        """Write what is due, and come again for the next one."""
        now = self._loop.time()
        while self._due and self._due[0][0] <= now:
            self._transport.write(self._due.popleft()[1])
        if self._due:
            self._loop.call_at(self._due[0][0], self._write)


async def _serve(topic: str, partitions: int, delay_s: float) -> None:
    async with Sink(topic, partitions, delay_s) as sink:
        print(sink.bootstrap_servers, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main(topic: str, partitions: str, delay_s: str) -> None:
    """Serve until the input ends."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(topic, int(partitions), float(delay_s)))


if __name__ == "__main__":
    main(*sys.argv[1:])
