"""The settings that all clients have: addresses, connections, metadata, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioprod.config._security import SecurityConfig, check_security
from aioprod.config._setting import (
    HIGH,
    INT64_MAX,
    LOW,
    MEDIUM,
    addresses,
    boolean,
    choice,
    instances,
    integer,
    text,
)
from aioprod.errors import ConfigError


class ClientConfig(SecurityConfig):
    """The settings of connections and metadata, for all clients. Java's clients have the same.

    Raises ConfigError, in a sentence that names the setting, for a value that can't be used.
    """

    bootstrap_servers: tuple[str, ...] = addresses(
        importance=HIGH,
        doc="The first brokers to connect to. They know the others, so a few are enough.",
    )
    client_id: str = text(
        "",
        importance=MEDIUM,
        doc="The name of this client in the brokers' logs, quotas and metrics. Empty: one is made up.",
    )
    client_rack: str = text(
        "",
        importance=LOW,
        doc="Where this client is, in the words of the brokers' `broker.rack`. Readers and members "
        "read from replicas there, and a producer with `partitioner.rack.aware` sends to leaders there.",
    )
    client_dns_lookup: str = choice(
        "use_all_dns_ips",
        ["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"],
        importance=MEDIUM,
        doc="A connection tries each address of a host name in turn; or each bootstrap name is first replaced by the "
        "canonical names of its addresses.",
    )
    request_timeout_ms: int = integer(
        30_000,
        importance=MEDIUM,
        doc="How long to wait for the answer to one request. Then its connection is closed and the request retried.",
    )
    socket_connection_setup_timeout_ms: int = integer(
        10_000,
        at_most=INT64_MAX,
        importance=MEDIUM,
        doc="How long one connection may take to be set up. Doubled with each failure in a row, with 20 % jitter.",
    )
    socket_connection_setup_timeout_max_ms: int = integer(
        30_000,
        at_most=INT64_MAX,
        importance=MEDIUM,
        doc="The most that the connection setup timeout grows to.",
    )
    connections_max_idle_ms: int = integer(
        540_000,
        at_least=-1,
        at_most=INT64_MAX,
        importance=MEDIUM,
        doc="A connection unused for this long is closed. -1: never.",
    )
    reconnect_backoff_ms: int = integer(
        50,
        at_most=INT64_MAX,
        importance=LOW,
        doc="How long to wait before connecting to a broker again. Doubled with each failure in a row, with 20 % "
        "jitter. Set alone, the wait never grows.",
    )
    reconnect_backoff_max_ms: int = integer(
        1_000,
        at_most=INT64_MAX,
        importance=LOW,
        doc="The most that the wait before a new connection grows to.",
    )
    retry_backoff_ms: int = integer(
        100,
        at_most=INT64_MAX,
        importance=LOW,
        doc="How long to wait before a failed request is tried again. Doubled with each failure, with 20 % jitter.",
    )
    retry_backoff_max_ms: int = integer(
        1_000,
        at_most=INT64_MAX,
        importance=LOW,
        doc="The most that the wait before another try grows to.",
    )
    # A fixed size is what one connection carries in a round trip, as the system's own size no longer grows with the
    # traffic. It also cuts large answers into so many parts that these cost as much as decoding them. Java's producer
    # has 131,072 and 32,768, its consumer 131,072 and 65,536.
    send_buffer_bytes: int = integer(
        -1,
        at_least=-1,
        importance=MEDIUM,
        doc="The size of a socket's send buffer (SO_SNDBUF): what one connection sends in a round trip at most. "
        "-1: the operating system's, which grows with the traffic.",
    )
    receive_buffer_bytes: int = integer(
        -1,
        at_least=-1,
        importance=MEDIUM,
        doc="The size of a socket's receive buffer (SO_RCVBUF): what one connection receives in a round trip at most. "
        "-1: the operating system's, which grows with the traffic.",
    )
    metadata_max_age_ms: int = integer(
        300_000,
        at_most=INT64_MAX,
        importance=LOW,
        doc="Metadata of the cluster is fetched again after this time, or up to 10 % earlier, so that clients "
        "that have started together spread out; even when nothing has failed.",
    )
    metadata_recovery_strategy: str = choice(
        "rebootstrap",
        ["none", "rebootstrap"],
        importance=LOW,
        doc="What to do when no known broker can be reached: start again from `bootstrap.servers`, or keep trying.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = integer(
        300_000,
        at_most=INT64_MAX,
        importance=LOW,
        doc="How long requests for metadata may fail before the client starts again from `bootstrap.servers`.",
    )
    metadata_cluster_check_enable: bool = boolean(
        True,
        importance=LOW,
        doc="Whether connections name the broker and the cluster that they are for, so that brokers from 4.4 on reject "
        "one that has reached another broker (KIP-1242). Without effect if `metadata.recovery.strategy` is `none`.",
    )
    metric_reporters: tuple[Any, ...] = instances(
        "reporter",
        importance=LOW,
        doc="Objects whose `report(snapshot)` gets all metrics once in each `metrics.sample.window.ms`.",
    )
    metrics_sample_window_ms: int = integer(
        30_000,
        at_least=1,
        at_most=INT64_MAX,
        importance=LOW,
        doc="The time between two calls of the metric reporters.",
    )
    metrics_topics_max: int = integer(
        100,
        importance=LOW,
        doc="How many topics have metrics of their own; the others share the label `(other)`. Not a setting of Java's.",
    )
    metrics_num_samples: int = integer(
        2,
        at_least=1,
        built=(2,),
        later="metrics here cover the whole life of a client, so there are no samples to keep.",
        importance=LOW,
        doc="Known for files of Java's clients that spell out the default.",
    )
    metrics_recording_level: str = choice(
        "INFO",
        ["INFO", "DEBUG", "TRACE"],
        built=("INFO",),
        later="there are no further metrics at other levels.",
        importance=LOW,
        doc="Known for files of Java's clients that spell out the default.",
    )
    enable_metrics_push: bool = boolean(
        False,
        built=(False,),
        later="pushing metrics to the brokers is not built yet.",
        importance=LOW,
        doc="Send metrics to brokers that subscribe to them (KIP-714). Java's default is true: the setting is known "
        "for files that turn it off.",
    )

    def _adjustments(self) -> Mapping[str, object]:
        return client_adjustments(self)


def client_adjustments(config: ClientConfig) -> dict[str, object]:
    """Return the defaults that given settings change; raises ConfigError for settings that contradict."""
    if not config.bootstrap_servers:
        raise ConfigError("bootstrap.servers is not set.", hint="Name at least one server, such as localhost:9092.")
    check_security(config)
    changes: dict[str, object] = {}
    for first in ("reconnect_backoff", "retry_backoff", "socket_connection_setup_timeout"):
        changes |= _growth(config, f"{first}_ms", f"{first}_max_ms")
    # Java: reconnect.backoff.ms without its maximum means a wait that stays the same.
    if "reconnect_backoff_ms" in config.explicit and "reconnect_backoff_max_ms" not in config.explicit:
        changes["reconnect_backoff_max_ms"] = config.reconnect_backoff_ms
    return changes


def _growth(config: ClientConfig, start: str, end: str) -> dict[str, object]:
    lowest, highest = getattr(config, start), getattr(config, end)
    if lowest <= highest:
        return {}
    if end not in config.explicit:
        return {end: lowest}
    if start not in config.explicit:
        return {start: highest}
    raise ConfigError(
        f"{start.replace('_', '.')}={lowest} is larger than {end.replace('_', '.')}={highest}, which is to limit it.",
        hint="Raise the limit, or leave one of the two at its default.",
    )
