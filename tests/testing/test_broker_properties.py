"""The text of a broker's settings, and its ports."""

from __future__ import annotations

import socket

from aioprod.testing import FakeCluster, listening
from aioprod.testing.kafka.broker_properties import (
    HOST,
    PORTS,
    Ports,
    broker_properties,
    free_ports,
    java_names,
    properties_text,
)


def test_ports_are_distinct_and_below_those_of_outgoing_connections() -> None:
    ports = [port for node in free_ports(3) for port in node]
    assert len(set(ports)) == 9
    assert all(18_000 <= port < 25_000 for port in ports)


async def test_what_listens_in_a_test_takes_no_port_of_a_broker_that_is_down() -> None:
    assert not set(PORTS) & set(listening.PORTS)
    async with FakeCluster(3) as cluster:
        assert all(int(address.rpartition(":")[2]) in listening.PORTS for address in cluster.bootstrap.split(","))


def test_ports_in_use_are_skipped() -> None:
    with socket.create_server((HOST, 0)) as used:
        taken = used.getsockname()[1]
        free = [port for node in free_ports(1) for port in node]
        assert free_ports(1, [taken, *free]) == [Ports(*free)]


def test_names_and_values_as_java_writes_them() -> None:
    properties = {"min_insync_replicas": 2, "auto.create.topics.enable": False, "compression_type": "lz4"}
    assert java_names(properties) == {
        "min.insync.replicas": "2",
        "auto.create.topics.enable": "false",
        "compression.type": "lz4",
    }


def test_the_text_of_values_with_special_characters() -> None:
    assert properties_text({"a": "C:\\logs", "b": "one\ntwo"}) == "a=C:\\\\logs\nb=one\\ntwo\n"


def test_one_broker_is_its_own_controller() -> None:
    properties = broker_properties(1, {1: Ports(1001, 1002, 1003)}, advertised_port=2000, data="/data", properties={})
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:1003"
    assert properties["listeners"] == "CLIENT://127.0.0.1:1001,INTERNAL://127.0.0.1:1002,CONTROLLER://127.0.0.1:1003"
    assert properties["advertised.listeners"] == "CLIENT://127.0.0.1:2000,INTERNAL://127.0.0.1:1002"
    assert properties["log.dirs"] == "/data"
    assert properties["offsets.topic.replication.factor"] == "1"
    assert properties["transaction.state.log.min.isr"] == "1"


def test_three_brokers_replicate_three_times_and_the_caller_may_override() -> None:
    ports = {1: Ports(1, 2, 3), 2: Ports(4, 5, 6), 3: Ports(7, 8, 9)}
    properties = broker_properties(
        2, ports, advertised_port=4, data="/data", properties={"default.replication.factor": "2", "broker.rack": "a"}
    )
    assert properties["node.id"] == "2"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:3,2@127.0.0.1:6,3@127.0.0.1:9"
    assert properties["transaction.state.log.replication.factor"] == "3"
    assert properties["transaction.state.log.min.isr"] == "2"
    assert properties["default.replication.factor"] == "2"
    assert properties["broker.rack"] == "a"
