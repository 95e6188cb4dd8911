"""ACLs of a fake cluster: the errors of clients without authorization, and which requests are checked."""

from __future__ import annotations

import pytest

from aioprod import Producer
from aioprod.errors import AuthorizationError, NotSentError, RejectedError, TransactionAbortedError, UsageError
from aioprod.messages import ProduceRequest
from aioprod.testing import Acl, FakeCluster, Security
from aioprod.types import TopicPartition
from tests.support.acl_scenarios import GUARDED, SCENARIOS, Bench, Scenario, causes_of, denied


def writable(topic: str) -> Acl:
    """A topic that every client may write to."""
    return Acl("User:*", "WRITE", "topic", topic)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("brokers", [1, 3])
async def test_errors_without_authorization(scenario: Scenario, brokers: int) -> None:
    async with FakeCluster(brokers, security=GUARDED) as cluster:

        async def create_topic(name: str) -> None:
            cluster.create_topic(name)

        async def add_acls(*acls: Acl) -> None:
            cluster.add_acls(*acls)

        await Bench(cluster.bootstrap, create_topic, add_acls).check(scenario)


async def test_principals_come_from_the_log_in_or_the_certificate() -> None:
    """By ACLs for this principal and no other."""
    for wanted, principal in (
        (Security(protocol="PLAINTEXT", acls=[]), "User:ANONYMOUS"),
        (Security(protocol="SSL", acls=[]), "User:ANONYMOUS"),
        (Security(protocol="SSL", client_certificates=True, acls=[]), "User:CN=alice"),
        (Security(mechanisms=["PLAIN"], client_certificates=True, acls=[]), "User:alice"),
    ):
        async with FakeCluster(security=wanted) as cluster:
            cluster.create_topic("t")
            cluster.add_acls(Acl("User:bob", "ALL", "topic", "t"))
            async with Producer(
                cluster.bootstrap, enable_idempotence=False, **wanted.client_options("alice")
            ) as producer:
                with pytest.raises(AuthorizationError):
                    await producer.send("t", b"1")
                cluster.add_acls(Acl(principal, "WRITE", "topic", "t"))
                assert (await producer.send("t", b"1")).offset == 0


async def test_a_denied_topic_is_in_one_request_with_others() -> None:
    """The leader answers for each topic; nothing is sent a second time."""
    wanted = Security(
        protocol="PLAINTEXT", acls=[writable("a"), writable("c"), Acl("User:*", "DESCRIBE", "topic", "b")]
    )
    async with FakeCluster(security=wanted) as cluster:
        for topic in "abc":
            cluster.create_topic(topic)
        async with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
            for topic in "abc":
                await producer.partitions_for(topic)
            futures = [producer.submit(topic, b"1") for topic in "abcabc"]
            await producer.flush()
        (request,) = cluster.seen_of(ProduceRequest)
        assert len(request.topic_data) == 3
        assert [type(future.exception()) for future in futures] == [type(None), RejectedError, type(None)] * 2
        assert [len(cluster.records(topic)) for topic in "abc"] == [2, 0, 2]


async def test_topics_are_described_one_by_one() -> None:
    """A hidden topic does not delay others, and topics are auto-created only with authorization."""
    wanted = Security(protocol="PLAINTEXT", acls=[writable("seen"), writable("new"), writable("newer")])
    async with FakeCluster(security=wanted) as cluster:
        cluster.create_topic("seen")
        cluster.create_topic("hidden")
        cluster.add_acls(Acl("User:*", "CREATE", "topic", "new"))
        async with Producer(cluster.bootstrap) as producer:
            sent = [producer.submit(topic, b"1") for topic in ("hidden", "seen", "new", "newer")]
            await producer.flush()
        causes = [error.__cause__ if (error := future.exception()) else None for future in sent]
        assert [type(cause) for cause in causes] == [AuthorizationError, type(None), type(None), AuthorizationError]
        assert sorted(cluster.topics) == ["hidden", "new", "seen"]


async def test_a_cluster_that_has_no_acls_gets_none() -> None:
    for security in (None, Security()):
        async with FakeCluster(security=security) as cluster:
            with pytest.raises(UsageError, match="without ACLs"):
                cluster.add_acls(writable("t"))


async def test_transactions_of_version_1() -> None:
    """Partitions and groups are added by requests of their own; all that they may not add is named."""
    acls = [Acl("User:*", "WRITE", "transactional_id", "*"), writable("a")]
    acls += [Acl("User:*", "DESCRIBE", "topic", topic) for topic in "bc"]
    async with FakeCluster(transaction_version=1, security=Security(protocol="PLAINTEXT", acls=acls)) as cluster:
        for topic in "abc":
            cluster.create_topic(topic)
        async with Producer(cluster.bootstrap, transactional_id="id", linger_ms=60_000) as producer:
            for topic in "abc":
                await producer.partitions_for(topic)
            await producer.begin_transaction()
            futures = [producer.submit(topic, b"1") for topic in "abc"]
            await producer.flush()
            assert [type(future.exception()) for future in futures] == [NotSentError] * 3
            with pytest.raises(TransactionAbortedError) as aborted:
                await producer.commit_transaction()
            error = denied(causes_of(aborted.value)[-1], "WRITE", "topic", "b", place="--topic b --topic c")
            assert "add partitions to the transaction" in error.message
            await producer.abort_transaction()
            await producer.begin_transaction()
            with pytest.raises(AuthorizationError) as caught:
                await producer.send_offsets_to_transaction({TopicPartition("a", 0): 1}, "g")
            denied(caught.value, "READ", "group", "g")
            await producer.abort_transaction()
        assert not any(cluster.records(topic) for topic in "abc")
