"""Which function answers which request: `HANDLERS`.

A handler gets the `Call` and the request, and returns the response, or an awaitable of it where it has to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AlterConfigsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.handlers.configs import alter_configs, describe_configs, incremental_alter_configs
from aioprod.testing.fake.handlers.coordinators import find_coordinator
from aioprod.testing.fake.handlers.fetch import fetch, list_offsets
from aioprod.testing.fake.handlers.group_deletions import delete_groups, offset_delete
from aioprod.testing.fake.handlers.group_descriptions import consumer_group_describe, describe_groups
from aioprod.testing.fake.handlers.groups import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from aioprod.testing.fake.handlers.log_dirs import delete_records, describe_log_dirs
from aioprod.testing.fake.handlers.metadata import metadata
from aioprod.testing.fake.handlers.offsets import offset_commit, offset_fetch, txn_offset_commit
from aioprod.testing.fake.handlers.produce import produce
from aioprod.testing.fake.handlers.topics import create_partitions, create_topics, delete_topics
from aioprod.testing.fake.handlers.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
)
from aioprod.wire.schema import AnyRequest

__all__ = ["HANDLERS"]

HANDLERS: Final[Mapping[type[AnyRequest], Callable[[Call, Any], Any]]] = {
    ProduceRequest: produce,
    FetchRequest: fetch,
    ListOffsetsRequest: list_offsets,
    MetadataRequest: metadata,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    CreatePartitionsRequest: create_partitions,
    DescribeConfigsRequest: describe_configs,
    IncrementalAlterConfigsRequest: incremental_alter_configs,
    AlterConfigsRequest: alter_configs,
    DescribeLogDirsRequest: describe_log_dirs,
    DeleteRecordsRequest: delete_records,
    ListGroupsRequest: list_groups,
    DescribeGroupsRequest: describe_groups,
    ConsumerGroupDescribeRequest: consumer_group_describe,
    DeleteGroupsRequest: delete_groups,
    OffsetDeleteRequest: offset_delete,
    FindCoordinatorRequest: find_coordinator,
    InitProducerIdRequest: init_producer_id,
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    EndTxnRequest: end_txn,
    DescribeTransactionsRequest: describe_transactions,
    TxnOffsetCommitRequest: txn_offset_commit,
    OffsetCommitRequest: offset_commit,
    OffsetFetchRequest: offset_fetch,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
}
"""All but ApiVersions, SaslHandshake and SaslAuthenticate, which `FakeBroker` answers itself."""
