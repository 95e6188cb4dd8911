from __future__ import annotations

import pytest

import aioprod.messages
from aioprod.errors import ProtocolError, UnsupportedVersionError
from aioprod.messages import MetadataRequest, ProduceRequest, SaslHandshakeRequest
from aioprod.messages.registry import REQUESTS, REQUESTS_BY_KEY, REQUESTS_BY_NAME, decode_request
from aioprod.wire.codec import encode
from aioprod.wire.frame import encode_request, request_header

# (key, first version, last version, first flexible version) as brokers of 4.4 have them, but for three last versions
# that bring nothing: NOT_SPOKEN in integration/test_java_messages.py
KAFKA_4_4 = {
    "Produce": (0, 3, 13, 9),
    "Fetch": (1, 4, 18, 12),
    "ListOffsets": (2, 1, 11, 6),
    "Metadata": (3, 0, 13, 9),
    "OffsetCommit": (8, 2, 10, 8),
    "OffsetFetch": (9, 1, 10, 6),
    "FindCoordinator": (10, 0, 6, 3),
    "JoinGroup": (11, 0, 9, 6),
    "Heartbeat": (12, 0, 4, 4),
    "LeaveGroup": (13, 0, 5, 4),
    "SyncGroup": (14, 0, 5, 4),
    "DescribeGroups": (15, 0, 6, 5),
    "ListGroups": (16, 0, 5, 3),
    "SaslHandshake": (17, 0, 1, None),
    "ApiVersions": (18, 0, 5, 3),
    "CreateTopics": (19, 2, 7, 5),
    "DeleteTopics": (20, 1, 6, 4),
    "DeleteRecords": (21, 0, 2, 2),
    "InitProducerId": (22, 0, 6, 2),
    "AddPartitionsToTxn": (24, 0, 5, 3),
    "AddOffsetsToTxn": (25, 0, 4, 3),
    "EndTxn": (26, 0, 5, 3),
    "TxnOffsetCommit": (28, 0, 6, 3),
    "DescribeConfigs": (32, 1, 4, 4),
    "AlterConfigs": (33, 0, 2, 2),
    "DescribeLogDirs": (35, 1, 4, 2),
    "SaslAuthenticate": (36, 0, 2, 2),
    "CreatePartitions": (37, 0, 3, 2),
    "DeleteGroups": (42, 0, 3, 2),
    "IncrementalAlterConfigs": (44, 0, 1, 1),
    "OffsetDelete": (47, 0, 0, None),
    "DescribeTransactions": (65, 0, 0, 0),
    "ConsumerGroupHeartbeat": (68, 0, 1, 0),
    "ConsumerGroupDescribe": (69, 0, 1, 0),
}


def test_the_34_requests_and_their_versions() -> None:
    declared = {kind.NAME: (kind.API_KEY, *kind.VERSIONS, kind.FLEXIBLE) for kind in REQUESTS}
    assert declared == KAFKA_4_4
    assert [kind.API_KEY for kind in REQUESTS] == sorted(REQUESTS_BY_KEY)


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_and_its_response_belong_together(kind: type[ProduceRequest]) -> None:
    response = kind.RESPONSE
    assert (kind.__name__, response.__name__) == (f"{kind.NAME}Request", f"{kind.NAME}Response")
    assert (response.API_KEY, response.NAME) == (kind.API_KEY, kind.NAME)
    assert (response.VERSIONS, response.FLEXIBLE) == (kind.VERSIONS, kind.FLEXIBLE)
    assert REQUESTS_BY_KEY[kind.API_KEY] is REQUESTS_BY_NAME[kind.NAME] is kind


def test_only_the_last_version_of_init_producer_id_is_unstable() -> None:
    assert {kind.NAME: kind.STABLE_MAX for kind in REQUESTS if kind.STABLE_MAX is not None} == {"InitProducerId": 5}


def test_every_message_is_exported() -> None:
    assert list(aioprod.messages.__all__) == sorted(
        f"{name}{direction}" for name in KAFKA_4_4 for direction in ("Request", "Response")
    )


@pytest.mark.parametrize("version", [0, 9, 13])
def test_a_request_is_read_as_a_server_does(version: int) -> None:
    request = MetadataRequest(topics=())
    header, decoded = decode_request(encode_request(request, version, 3, "me")[4:])
    assert header[:4] == (3, version, 3, "me")
    assert decoded == request


def test_an_unknown_request_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="No request with key 4711"):
        decode_request(request_header(4711, 0, False, 1, None))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="versions 0 to 1, not 2"):
        decode_request(request_header(17, 2, False, 1, None) + encode(SaslHandshakeRequest(), 1))


def test_a_malformed_request_is_refused() -> None:
    frame = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, None)
    for end in range(4, len(frame)):
        with pytest.raises(ProtocolError):
            decode_request(frame[4:end])
