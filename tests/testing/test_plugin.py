"""The fixtures, in a pytest run of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioprod.testing import KafkaUnavailableError
from aioprod.testing.fixtures import LoopThread, fresh_topic, proxies, running_cluster

pytest_plugins = ["pytester"]

USERS_TESTS = """
    import asyncio
    import socket

    import pytest

    def answers(address):
        host, port = address.split(":")
        with socket.create_connection((host, int(port))):
            return True

    def test_a_topic(kafka_cluster, kafka_topic):
        assert answers(kafka_cluster.bootstrap_servers)
        assert kafka_topic.startswith("test_a_topic-")

    @pytest.mark.parametrize("name", ["with / slash"])
    def test_a_legal_topic_name(kafka_topic, name):
        assert "/" not in kafka_topic

    def test_three(kafka_cluster_3):
        assert kafka_cluster_3.broker_ids == (1, 2, 3)

    def test_a_log_in(kafka_cluster_sasl_ssl):
        options = kafka_cluster_sasl_ssl.security.client_options("alice", "SCRAM-SHA-512")
        assert options["security_protocol"] == "SASL_SSL"
        assert answers(kafka_cluster_sasl_ssl.bootstrap_servers)

    def test_from_a_loop_of_ones_own(kafka_cluster):
        asyncio.run(kafka_cluster.create_topic("mine"))

    def test_fake_brokers(fake_cluster):
        topic = fake_cluster.create_topic("orders")
        fake_cluster.kill(topic.partitions[0].leader)
        assert fake_cluster.topics["orders"].partitions[0].leader == 2
        assert fake_cluster[2].node_id == 2
        assert "2 of 3 brokers up, 1 topics" in repr(fake_cluster)
        assert answers(fake_cluster.bootstrap.split(",")[1])

    def test_fake_brokers_may_be_awaited(fake_cluster):
        async def scenario():
            await fake_cluster.kill(1)
            await fake_cluster.restart(1)
            await fake_cluster.kill(2)
            return fake_cluster.call(lambda: sorted(fake_cluster.state.nodes))

        assert asyncio.run(scenario()) == [1, 3]

    def test_a_schema_registry(fake_schema_registry):
        assert fake_schema_registry.register("orders-value", '"string"') == 1
        assert answers(fake_schema_registry.url.removeprefix("http://"))

    def test_proxy(kafka_cluster, tcp_proxy):
        proxy = tcp_proxy(kafka_cluster.bootstrap_servers)
        assert answers(proxy.address)
        proxy.cut()
"""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tests: str) -> pytest.RunResult:
    pytester.makepyfile(tests)
    # Only our plugin, whether or not the project is installed and pytest would find it by itself.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester.runpytest_inprocess("-p", "aioprod.testing.plugin", "-rs")


def test_the_fixtures_serve_plain_and_async_tests(
    local_kafka: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(pytester, monkeypatch, USERS_TESTS).assert_outcomes(passed=9)
    assert list(local_kafka.iterdir()) == []


def test_without_kafka_tests_are_skipped_with_the_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIOPROD_KAFKA", raising=False)
    monkeypatch.setattr("aioprod.testing.kafka.cluster.choose_backend", no_kafka)
    result = run(pytester, monkeypatch, "def test_it(kafka_cluster): ...")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no Kafka on this machine: neither Docker nor Java*"])


def test_a_requested_backend_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPROD_KAFKA", "docker")
    monkeypatch.setattr("aioprod.testing.kafka.cluster.choose_backend", no_kafka)
    with pytest.raises(KafkaUnavailableError), running_cluster(1):
        pass


def no_kafka(*_: object) -> None:
    raise KafkaUnavailableError("neither Docker nor Java")


async def test_the_fixtures_work_beside_a_running_loop(local_kafka: Path) -> None:
    with running_cluster(1) as cluster, fresh_topic(cluster, "a b"), proxies() as start:
        proxy = start(cluster.bootstrap_servers)
        await cluster.create_topic("another")
        assert proxy.port > 0


def test_a_loop_in_a_thread_hands_out_results_and_errors() -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def one() -> int:
        return 1

    with LoopThread() as loop:
        assert loop.run(one()) == 1
        with pytest.raises(ValueError, match="no"):
            loop.run(fail())
