"""ACLs: the scenarios of fake clusters with real brokers, and anonymous clients."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Iterator

import pytest

from aioprod import Producer
from aioprod._authorization_errors import DENIAL_CODES, Right, authorization_error
from aioprod.errors import AuthorizationError, BrokerError, RejectedError
from aioprod.testing import Acl, KafkaCluster, Security
from aioprod.testing.acls import ANONYMOUS, CLUSTER
from aioprod.testing.fixtures import running_cluster
from aioprod.testing.kafka.acl_requests import DescribeAclsRequest, creation_of, described
from aioprod.testing.kafka.jars import java, kafka_libs
from integration.support.brokers import TRANSACTION_VERSION_1
from tests.support.acl_scenarios import GUARDED, SCENARIOS, Bench, Scenario

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A broker that allows nobody anything who does not get a right from a test."""
    with running_cluster(security=GUARDED) as cluster:
        yield cluster


@pytest.mark.parametrize("told", SCENARIOS, ids=lambda told: told.__name__)
async def test_what_is_not_allowed(guarded: KafkaCluster, told: Scenario) -> None:
    await Bench(guarded.bootstrap_servers, guarded.create_topic, guarded.add_acls).check(told)


async def test_clients_that_nobody_knows() -> None:
    """In the clear everybody is User:ANONYMOUS; the brokers themselves are not."""
    security = Security(protocol="PLAINTEXT", acls=[Acl(ANONYMOUS, "WRITE", "topic", "open-", "prefixed")])
    async with await KafkaCluster.start(security=security) as cluster:
        await cluster.create_topic("open-1")
        await cluster.create_topic("closed")
        async with Producer(cluster.bootstrap_servers, **security.client_options()) as producer:
            assert (await producer.send("open-1", b"1")).offset == 0
            with pytest.raises(AuthorizationError, match="Topic 'closed' does not exist, or this client may not"):
                await producer.send("closed", b"1")
            denial = Acl(ANONYMOUS, "WRITE", "topic", "open-1", permission="deny")
            await cluster.add_acls(Acl("User:*", "ALL", "topic", "*"), denial)
            assert (await producer.send("closed", b"1")).offset == 0
            with pytest.raises(RejectedError):
                await producer.send("open-1", b"2")


async def test_a_cluster_without_acls(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(BrokerError, match="could not be created: No Authorizer is configured"):
        await kafka_cluster.add_acls(Acl(ANONYMOUS, "WRITE", "topic", "t"))


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_kafkas_own_tool_takes_the_commands_of_hints() -> None:
    """By Kafka 3.9: of the jars that are fetched for newer brokers none has the tool."""
    asked: list[Right] = [
        Right("WRITE", "topic", "orders"),
        Right("READ", "group", "it's a group"),
        Right("DESCRIBE", "transactional_id", "$(id)"),
        Right("IDEMPOTENT_WRITE", "cluster", CLUSTER),
        Right("DESCRIBE", "delegation_token", "t"),
    ]
    security = Security(protocol="PLAINTEXT", acls=[], super_users=[ANONYMOUS])
    libs = await asyncio.to_thread(kafka_libs, TRANSACTION_VERSION_1)
    tool = [str(await asyncio.to_thread(java)), "-cp", f"{libs}/*", "kafka.admin.AclCommand", "--bootstrap-server"]
    async with await KafkaCluster.start(security=security, version=TRANSACTION_VERSION_1) as cluster:
        for right in asked:
            error = authorization_error("It failed.", DENIAL_CODES[right.resource_type], [right])
            assert error is not None
            assert error.hint is not None
            command = shlex.split(error.hint.partition("`")[2].rpartition("`")[0])
            assert command[0] == "kafka-acls.sh"
            await asyncio.to_thread(subprocess.run, [*tool, cluster.bootstrap_servers, *command[1:]], check=True)
        known = set(described(await cluster.call(DescribeAclsRequest())))
    assert known == {creation_of(Acl("User:NAME", *right)) for right in asked}
