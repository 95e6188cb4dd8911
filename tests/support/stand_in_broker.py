"""The broker that `stand_in_java` runs: it answers the requests of aioprod.testing.kafka.rpc."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from aioprod.messages.api_versions import ApiVersion
from aioprod.messages.create_topics import CreatableTopicResult
from aioprod.messages.delete_topics import DeletableTopicResult
from aioprod.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from aioprod.wire.codec import decode
from aioprod.wire.frame import decode_request_header, encode_response
from aioprod.wire.schema import Response


class Broker:
    """Answers; topics are kept in a file that the brokers of a cluster share."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties
        self.topics_file = Path(properties["log.dirs"]).parents[1] / "topics.json"
        listeners = (entry.rpartition("://") for entry in properties["listeners"].split(","))
        self.ports = {name: int(address.rpartition(":")[2]) for name, _, address in listeners}
        self.nodes = [int(voter.split("@")[0]) for voter in properties["controller.quorum.voters"].split(",")]

    @property
    def topics(self) -> dict[str, int]:
        known: dict[str, int] = json.loads(self.topics_file.read_text()) if self.topics_file.exists() else {}
        return known

    async def serve(self) -> None:
        servers = [
            await asyncio.start_server(self.connection, "127.0.0.1", port)
            for name, port in self.ports.items()
            if name != "CONTROLLER"
        ]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                size = int.from_bytes(await reader.readexactly(4), "big")
                payload = await reader.readexactly(size)
            except (asyncio.IncompleteReadError, OSError):
                return
            header = decode_request_header(payload, is_flexible)
            answer = self.answer(header.api_key, header.version, bytes(header.body))
            writer.write(encode_response(answer, header.version, header.correlation_id))
            await writer.drain()

    def answer(self, api_key: int, version: int, body: bytes) -> Response:
        if api_key == ApiVersionsRequest.API_KEY:
            kinds = (ApiVersionsRequest, MetadataRequest, CreateTopicsRequest, DeleteTopicsRequest)
            return ApiVersionsResponse(
                error_code=0,
                api_keys=tuple(
                    ApiVersion(api_key=kind.API_KEY, min_version=kind.VERSIONS[0], max_version=kind.VERSIONS[1])
                    for kind in kinds
                ),
            )
        if api_key == CreateTopicsRequest.API_KEY:
            topic = decode(CreateTopicsRequest, version, body).topics[0]
            if topic.name in self.topics:
                return created(topic.name, 36, "Topic exists already")
            self.topics_file.write_text(json.dumps({**self.topics, topic.name: topic.num_partitions}))
            return created(topic.name, 0, None)
        if api_key == DeleteTopicsRequest.API_KEY:
            name = decode(DeleteTopicsRequest, version, body).topics[0].name or ""
            left = {topic: count for topic, count in self.topics.items() if topic != name}
            error_code = 0 if name in self.topics else 3
            self.topics_file.write_text(json.dumps(left))
            return DeleteTopicsResponse(
                throttle_time_ms=0,
                responses=(DeletableTopicResult(name=name, topic_id=uuid.UUID(int=0), error_code=error_code),),
            )
        return self.metadata(decode(MetadataRequest, version, body))

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        known = self.nodes[:1] if self.properties.get("stand.in") == "alone" else self.nodes
        leader = -1 if self.properties.get("stand.in") == "no_leader" else self.nodes[0]
        topics = []
        for topic in request.topics or ():
            partitions = tuple(
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=leader,
                    replica_nodes=(),
                    isr_nodes=(),
                    offline_replicas=(),
                )
                for index in range(self.topics.get(topic.name or "", 0))
            )
            topics.append(
                MetadataResponseTopic(
                    error_code=0, name=topic.name, topic_id=uuid.UUID(int=0), is_internal=False, partitions=partitions
                )
            )
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=tuple(MetadataResponseBroker(node_id=node, host="127.0.0.1", port=1) for node in known),
            topics=tuple(topics),
            error_code=0,
        )


def is_flexible(api_key: int, version: int) -> bool:
    kinds = (ApiVersionsRequest, MetadataRequest, CreateTopicsRequest, DeleteTopicsRequest)
    return version >= next(kind for kind in kinds if api_key == kind.API_KEY).FLEXIBLE


def created(name: str, error_code: int, message: str | None) -> CreateTopicsResponse:
    result = CreatableTopicResult(
        name=name,
        topic_id=uuid.UUID(int=0),
        error_code=error_code,
        error_message=message,
        topic_config_error_code=0,
        configs=None,
    )
    return CreateTopicsResponse(throttle_time_ms=0, topics=(result,))
