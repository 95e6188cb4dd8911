"""Bodies and frames worked out by hand from the protocol's tables."""

from __future__ import annotations

import uuid

import pytest

from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from aioprod.messages.api_versions import ApiVersion, FinalizedFeatureKey
from aioprod.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from aioprod.messages.fetch import ReplicaState
from aioprod.messages.metadata import (
    MetadataRequestTopic,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aioprod.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aioprod.wire.codec import decode, encode
from aioprod.wire.frame import encode_request
from aioprod.wire.schema import Message

ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

METADATA = MetadataResponse(
    brokers=(MetadataResponseBroker(node_id=1, host="h", port=9092),),
    cluster_id="c",
    controller_id=1,
    topics=(
        MetadataResponseTopic(
            name="t",
            partitions=(MetadataResponsePartition(leader_id=1, leader_epoch=7, replica_nodes=(1, 2), isr_nodes=(1,)),),
        ),
    ),
)


def produce(**topic: object) -> ProduceRequest:
    data = PartitionProduceData(index=1, records=b"abc")
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(partition_data=(data,), **topic),))  # type: ignore[arg-type]


BODIES: list[tuple[Message, int, str]] = [
    (ApiVersionsRequest(), 0, ""),
    (
        ApiVersionsRequest(client_software_name="aioprod", client_software_version="0.1"),
        3,
        "0861696f70726f64 04302e31 00",
    ),
    (ApiVersionsResponse(api_keys=(ApiVersion(api_key=18, max_version=4),)), 0, "0000 00000001 0012 0000 0004"),
    (
        ApiVersionsResponse(
            api_keys=(ApiVersion(api_key=18, max_version=4),),
            finalized_features_epoch=5,
            finalized_features=(FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1),),
        ),
        3,
        "0000 02 0012 0000 0004 00 00000000  02  01 08 0000000000000005  02 08 02 0266 0002 0001 00",
    ),
    (MetadataRequest(topics=()), 0, "00000000"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 4, "00000001 000174 01"),
    (MetadataRequest(topics=None), 9, "00 01 00 00 00"),
    (
        MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=False),
        9,
        "02 0274 00 00 00 00 00",
    ),
    (
        MetadataRequest(topics=(MetadataRequestTopic(topic_id=ID, name=None),)),
        12,
        "02 00112233445566778899aabbccddeeff 00 00 01 00 00",
    ),
    (
        METADATA,
        9,
        (
            "00000000 02 00000001 0268 00002384 00 00 0263 00000001"
            "02 0000 0274 00"
            "02 0000 00000000 00000001 00000007 03 00000001 00000002 02 00000001 01 00"
            "80000000 00 80000000 00"
        ),
    ),
    (produce(name="t"), 3, "ffff ffff 00007530 00000001 000174 00000001 00000001 00000003616263"),
    (produce(name="t"), 9, "00 ffff 00007530 02 0274 02 00000001 04616263 00 00 00"),
    (produce(topic_id=ID), 13, "00 ffff 00007530 02 00112233445566778899aabbccddeeff 02 00000001 04616263 00 00 00"),
    (
        ProduceResponse(
            responses=(
                TopicProduceResponse(
                    name="t",
                    partition_responses=(
                        PartitionProduceResponse(
                            index=1, error_code=6, base_offset=-1, current_leader=LeaderIdAndEpoch(leader_id=2)
                        ),
                    ),
                ),
            ),
            node_endpoints=(NodeEndpoint(node_id=2, host="h", port=9092, rack="r"),),
        ),
        10,
        (
            "02 0274 02 00000001 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff 01 00"
            "01 00 09 00000002 ffffffff 00"
            "00 00000000"
            "01 00 0e 02 00000002 0268 00002384 0272 00"
        ),
    ),
    (
        ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=3, heartbeat_interval_ms=5000),
        0,
        "00000000 0000 00 026d 00000003 00001388 ff 00",
    ),
    (
        ConsumerGroupHeartbeatResponse(
            assignment=Assignment(topic_partitions=(TopicPartitions(topic_id=ID, partitions=(4,)),))
        ),
        0,
        "00000000 0000 00 00 00000000 00000000 01 02 00112233445566778899aabbccddeeff 02 00000004 00 00 00",
    ),
    (
        FetchRequest(replica_state=ReplicaState(replica_id=1), max_wait_ms=1),
        15,
        "00000001 00000000 7fffffff 00 00000000 ffffffff 01 01 01  01 01 0d 00000001 ffffffffffffffff 00",
    ),
]


@pytest.mark.parametrize(("message", "version", "body"), BODIES)
def test_bodies(message: Message, version: int, body: str) -> None:
    assert encode(message, version).hex() == body.replace(" ", "")
    assert decode(type(message), version, bytes.fromhex(body)) == message


def test_frames() -> None:
    old = encode_request(ApiVersionsRequest(), 0, 1, "aio")
    assert old.hex() == "0000000d0012000000000001000361696f"
    flexible = encode_request(
        ApiVersionsRequest(client_software_name="aioprod", client_software_version="0.1"), 3, 1, "aio"
    )
    assert flexible.hex() == "0000001b0012000300000001000361696f000861696f70726f6404302e3100"
