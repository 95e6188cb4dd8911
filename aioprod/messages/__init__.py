"""Every request and response that aioprod sends or answers, declared once each, with the versions of Kafka 4.4.

Structs within a message are in the module of their API. That is imported when a message of it is used first: a
producer needs five of them. No client of aioprod sends AlterConfigs, DeleteGroups or OffsetDelete: fake brokers answer
them to the admin clients of others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
    from aioprod.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
    from aioprod.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from aioprod.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from aioprod.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
    from aioprod.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
    from aioprod.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from aioprod.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from aioprod.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from aioprod.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
    from aioprod.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from aioprod.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
    from aioprod.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
    from aioprod.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
    from aioprod.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
    from aioprod.messages.end_txn import EndTxnRequest, EndTxnResponse
    from aioprod.messages.fetch import FetchRequest, FetchResponse
    from aioprod.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
    from aioprod.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
    from aioprod.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from aioprod.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from aioprod.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from aioprod.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from aioprod.messages.list_groups import ListGroupsRequest, ListGroupsResponse
    from aioprod.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from aioprod.messages.metadata import MetadataRequest, MetadataResponse
    from aioprod.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from aioprod.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from aioprod.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from aioprod.messages.produce import ProduceRequest, ProduceResponse
    from aioprod.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
    from aioprod.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
    from aioprod.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from aioprod.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "ProduceRequest",
    "ProduceResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
]


def _home(message: str) -> str:
    """The module of a message: `end_txn` for EndTxnRequest and EndTxnResponse."""
    api = message.removesuffix("Request").removesuffix("Response")
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", api).lower()


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(__name__, {name: _home(name) for name in __all__})
