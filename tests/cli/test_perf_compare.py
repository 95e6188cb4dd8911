"""`aioprod perf --compare`: other clients with the same load, and our settings in their words."""

from __future__ import annotations

import json
import ssl

import pytest

from aioprod.cli.__main__ import main
from aioprod.cli.perf.peers import settings_of_peer
from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError
from aioprod.testing.certificates import Authority
from aioprod.testing.fixtures import running_fake_cluster


def test_each_client_sends_the_load_in_a_process_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with running_fake_cluster(1) as cluster:
        cluster.create_topic("orders", partitions=2)
        arguments = ["perf", "orders", "-b", cluster.bootstrap, "--records", "200", "--key-size", "3"]
        assert main([*arguments, "--compare", "confluent,aiokafka", "--json"]) == 0
        count = len(list(cluster.topics["orders"].records()))
    said = capsys.readouterr()
    clients = json.loads(said.out)["clients"]
    assert {name: found["records"] for name, found in clients.items()} == dict.fromkeys(
        ("aioprod", "confluent", "aiokafka"), 200
    )
    assert count == 3 * 201  # Each has sent one before.
    assert said.err.splitlines() == ["aioprod ...", "confluent ...", "aiokafka ..."]


def test_a_process_that_fails_is_reported_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with running_fake_cluster(1, auto_create_topics_enable=False) as cluster:
        assert main(["perf", "orders", "-b", cluster.bootstrap, "--records", "1", "--compare", "aiokafka"]) == 1
    said = capsys.readouterr()
    assert "The process of aioprod ended with status 1: " in said.err
    assert "Traceback" not in said.err


def test_settings_in_the_words_of_confluent() -> None:
    config = ProducerConfig(
        bootstrap_servers=("a:1", "b:2"),
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="alice",
        sasl_password="raw:env:alice",
        ssl_truststore_location="/ca.pem",
        ssl_truststore_type="PEM",
        close_timeout_ms=9,
    )
    found = settings_of_peer("confluent", config)
    assert found["bootstrap.servers"] == "a:1,b:2"
    assert (found["sasl.username"], found["sasl.password"]) == ("alice", "env:alice")
    assert found["ssl.ca.location"] == "/ca.pem"
    assert found["enable.idempotence"] is True
    assert found["linger.ms"] == config.linger_ms
    assert "close.timeout.ms" not in found
    assert "ssl.truststore.type" not in found


def test_settings_in_the_words_of_aiokafka() -> None:
    config = ProducerConfig(
        bootstrap_servers=("a:1",),
        security_protocol="SSL",
        ssl_truststore_certificates=Authority().certificate,
        batch_size=5000,
    )
    found = settings_of_peer("aiokafka", config)
    assert (found["max_batch_size"], found["compression_type"]) == (5000, None)
    assert isinstance(found["ssl_context"], ssl.SSLContext)
    assert not [name for name in found if "truststore" in name]


@pytest.mark.parametrize("peer", ["confluent", "aiokafka"])
def test_a_setting_that_can_not_be_handed_over_is_named(peer: str) -> None:
    with pytest.raises(ConfigError, match=f"can't hand over retries to {peer}"):
        settings_of_peer(peer, ProducerConfig(bootstrap_servers=("a:1",), retries=3))
