from __future__ import annotations

import math
import re
from importlib import metadata
from importlib.metadata import PackageNotFoundError

import pytest

from aioprod.config import ClientConfig, ProducerConfig
from aioprod.net.protocol.backoff import Backoff
from aioprod.net.settings import ClientSettings, software_version

KIP_511 = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def test_the_defaults_of_the_configuration_are_those_of_the_settings() -> None:
    config = ProducerConfig(bootstrap_servers=("localhost:9092",))
    assert ClientSettings.from_config(config) == ClientSettings(bootstrap=(("localhost", 9092),))


def test_every_setting_is_taken_over() -> None:
    config = ProducerConfig(
        bootstrap_servers=("a:1", "[::1]:2"),
        client_id="me",
        request_timeout_ms=1500,
        linger_ms=0,
        delivery_timeout_ms=5000,
        socket_connection_setup_timeout_ms=100,
        socket_connection_setup_timeout_max_ms=200,
        reconnect_backoff_ms=3,
        reconnect_backoff_max_ms=4,
        retry_backoff_ms=5,
        retry_backoff_max_ms=6,
        metadata_max_age_ms=7000,
        metadata_max_idle_ms=8000,
        connections_max_idle_ms=-1,
        send_buffer_bytes=-1,
        receive_buffer_bytes=10_000,
        client_dns_lookup="resolve_canonical_bootstrap_servers_only",
        metadata_recovery_strategy="none",
        metadata_recovery_rebootstrap_trigger_ms=9000,
    )
    assert ClientSettings.from_config(config, allow_auto_topic_creation=False) == ClientSettings(
        bootstrap=(("a", 1), ("::1", 2)),
        client_id="me",
        request_timeout_s=1.5,
        connect_timeout=Backoff(0.1, 0.2),
        reconnect_backoff=Backoff(0.003, 0.004),
        retry_backoff=Backoff(0.005, 0.006),
        metadata_max_age_s=7.0,
        metadata_max_idle_s=8.0,
        connections_max_idle_s=math.inf,
        send_buffer_bytes=-1,
        receive_buffer_bytes=10_000,
        canonical_names=True,
        rebootstrap=False,
        rebootstrap_trigger_s=9.0,
        allow_auto_topic_creation=False,
    )


def test_a_client_that_is_no_producer_has_a_configuration_too() -> None:
    config = ClientConfig(bootstrap_servers=("localhost:9092",), connections_max_idle_ms=1000)
    assert ClientSettings.from_config(config, client_id="reader").connections_max_idle_s == 1.0


@pytest.mark.parametrize(
    ("installed", "told"), [("0.1.0", "0.1.0"), ("1.0+local.7", "1.0-local.7"), ("2.0.dev1+", "2.0.dev1")]
)
def test_brokers_accept_our_software_version(installed: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: installed)
    software_version.cache_clear()
    assert software_version() == told
    assert KIP_511.fullmatch(told)
    software_version.cache_clear()


def test_a_source_tree_that_is_not_installed_has_a_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    software_version.cache_clear()
    assert KIP_511.fullmatch(software_version())
    software_version.cache_clear()
