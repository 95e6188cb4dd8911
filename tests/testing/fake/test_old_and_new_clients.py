"""Requests that our own clients never send, and real brokers answer."""

from __future__ import annotations

import asyncio

from aioprod.errors import ErrorCode
from aioprod.messages import ApiVersionsResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest
from aioprod.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from aioprod.messages.registry import decode_request
from aioprod.testing import FakeCluster
from aioprod.wire.codec import decode
from aioprod.wire.frame import encode_request


async def answered(brokers: FakeCluster, request: bytes) -> bytes:
    """The response to these bytes, without its length and its correlation id."""
    reader, writer = await asyncio.open_connection(*brokers.addresses[0])
    try:
        writer.write(len(request).to_bytes(4, "big") + request)
        size = int.from_bytes(await reader.readexactly(4), "big")
        return (await reader.readexactly(size))[4:]
    finally:
        writer.close()
        await writer.wait_closed()


async def test_api_versions_newer_than_ours_are_answered_by_version_0() -> None:
    newer = b"\x00\x12\x00\x63\x00\x00\x00\x01\xff\xff\x00" + b"whatever"
    async with FakeCluster() as brokers:
        response = decode(ApiVersionsResponse, 0, await answered(brokers, newer))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert 18 in {row.api_key for row in response.api_keys}


def test_bytes_after_a_request_are_skipped() -> None:
    # librdkafka's request for all topics: its null array has four bytes, where one was meant.
    request = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    header, message = decode_request(request)
    assert (header.version, message) == (13, MetadataRequest(topics=None, allow_auto_topic_creation=False))


async def test_offsets_for_clients_before_leader_epochs() -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(partition,)),))
    async with FakeCluster() as brokers:
        brokers.create_topic("t")
        data = bytes(encode_request(request, 1, 7, "old"))[4:]
        response = decode(ListOffsetsResponse, 1, await answered(brokers, data))
    assert response.topics[0].partitions[0].offset == 0
