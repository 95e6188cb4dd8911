"""CreateTopics with settings and with replicas that the client places; AlterConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aioprod.errors import ErrorCode
from aioprod.messages import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
)
from aioprod.messages import alter_configs as whole
from aioprod.messages import incremental_alter_configs as some
from aioprod.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicResult
from aioprod.messages.describe_configs import DescribeConfigsResource
from aioprod.testing.fake.state.topic_settings import TOPIC_SETTINGS
from tests.support.broker_scenarios.scenario import scenario, scenario_of_version_2
from tests.support.lab import PATIENCE_S, Lab

NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_CONFIG
TOPIC = 2
OF_THE_CLUSTER = {"retention.ms"}
"""Settings that the brokers of the tests have of their own."""


async def replaced(
    lab: Lab, name: str, settings: Mapping[str, str | None], *, validate_only: bool = False
) -> tuple[int, str | None]:
    """AlterConfigs of a topic: error and message."""
    rows = [whole.AlterableConfig(name=key, value=value) for key, value in settings.items()]
    wanted = whole.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=tuple(rows))
    (row,) = (await lab.request(AlterConfigsRequest(resources=(wanted,), validate_only=validate_only), 2)).responses
    return row.error_code, row.error_message


async def changed(lab: Lab, name: str, settings: Mapping[str, str | None]) -> tuple[int, str | None]:
    """IncrementalAlterConfigs of a topic, which sets these: error and message."""
    change = some.AlterableConfig
    rows = [change(name=key, config_operation=0, value=value) for key, value in settings.items()]
    wanted = some.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=tuple(rows))
    request = IncrementalAlterConfigsRequest(resources=(wanted,), validate_only=False)
    (row,) = (await lab.request(request, 1)).responses
    return row.error_code, row.error_message


async def settings_of(lab: Lab, name: str) -> dict[str, tuple[str | None, int, int]]:
    """DescribeConfigs of a topic: value, type and source by name."""
    wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
    (found,) = (await lab.request(DescribeConfigsRequest(resources=(wanted,)), 4)).results
    return {row.name: (row.value, row.config_type, row.config_source) for row in found.configs}


async def set_of(lab: Lab, name: str) -> dict[str, str | None]:
    """The settings that the topic has itself."""
    return {name: value for name, (value, _, source) in (await settings_of(lab, name)).items() if source == 1}


async def placed(lab: Lab, *replicas: tuple[int, ...], partitions: int = -1, first: int = 0) -> CreatableTopicResult:
    """CreateTopics with the brokers of each partition."""
    rows = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in enumerate(replicas, first)
    ]
    wanted = CreatableTopic(
        name=lab.new_name("placed"),
        num_partitions=partitions,
        replication_factor=-1,
        assignments=tuple(rows),
        configs=(),
    )
    return (await lab.request(CreateTopicsRequest(topics=(wanted,), timeout_ms=30_000), 7)).topics[0]


async def until_set(lab: Lab, name: str, expected: Mapping[str, str]) -> None:
    """Wait until the topic has these settings itself: a broker applies them some time after the controller."""
    async with asyncio.timeout(PATIENCE_S):
        while await set_of(lab, name) != expected:
            await asyncio.sleep(0.01)


@scenario
async def settings_are_replaced(lab: Lab) -> None:
    """Those that AlterConfigs does not name get their defaults; not with `validate_only`, unknown ones, or null."""
    topic = await lab.topic(cleanup_policy="compact", segment_ms="100000")
    before = {"cleanup.policy": "compact", "segment.ms": "100000"}
    await until_set(lab, topic.name, before)
    assert await replaced(lab, topic.name, {"retention.ms": "1000"}, validate_only=True) == (NONE, None)
    assert await replaced(lab, topic.name, {"no.such": "1"}) == (INVALID, "Unknown topic config name: no.such")
    assert await changed(lab, topic.name, {"no.such": "1"}) == (INVALID, "Unknown topic config name: no.such")
    null = (ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms")
    for alter in (replaced, changed):
        assert await alter(lab, topic.name, {"retention.ms": None}) == null
    assert await changed(lab, topic.name, {"segment.jitter.ms": "5"}) == (NONE, None)
    await until_set(lab, topic.name, before | {"segment.jitter.ms": "5"})
    assert await replaced(lab, topic.name, {"retention.ms": "1000"}) == (NONE, None)
    await until_set(lab, topic.name, {"retention.ms": "1000"})
    code, _ = await replaced(lab, lab.new_name("missing"), {})
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@scenario_of_version_2
async def settings_of_a_new_topic(lab: Lab) -> None:
    """All settings of the newest Kafka are known, with their types, and no others."""
    refused = await lab.create(lab.new_name("refused"), {"no.such": "1"})
    assert (refused.error_code, refused.error_message) == (INVALID, "Unknown topic config name: no.such")
    found = await settings_of(lab, (await lab.topic()).name)
    assert found.keys() == TOPIC_SETTINGS.keys()
    for name, (value, kind, _) in found.items():
        assert TOPIC_SETTINGS[name] == (kind, TOPIC_SETTINGS[name].default if name in OF_THE_CLUSTER else value)


@scenario
async def replicas_that_the_client_places(lab: Lab) -> None:
    """There are as many partitions as rows; counts beside them, gaps and unknown brokers are errors."""
    nodes = await lab.request(MetadataRequest(topics=()), 12)
    node = nodes.brokers[0].node_id
    created = await placed(lab, (node,), (node,), (node,))
    assert (created.error_code, created.num_partitions, created.replication_factor) == (NONE, 3, 1)
    assert len((await lab.describe(created.name)).partitions) == 3
    misplaced = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    rejected = [
        (await placed(lab, (node,), partitions=1), ErrorCode.INVALID_REQUEST),
        (await placed(lab, (node,), first=1), misplaced),
        (await placed(lab, (node + 7,)), misplaced),
        (await placed(lab, ()), misplaced),
    ]
    assert [created.error_code for created, _ in rejected] == [expected for _, expected in rejected]
