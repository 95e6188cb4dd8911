"""Settings as other clients name them (librdkafka, aiokafka, kafka-python): what to set here, or why there is no such
setting.

Read when a setting is unknown, and for the reference page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

__all__ = ["OTHER_NAMES", "Role", "advice", "pointless_because"]

Role: TypeAlias = Literal["any client", "producer", "reader", "member"]

_LEAVE_OUT: Final = "Leave it out: "
_NO_GROUP: Final = (
    "A reader belongs to no group, so it commits nothing: aioprod.Member(..., group_id=...) reads in one."
)
_GROUPS: Final = "Leave it out: a reader belongs to no group."
_START: Final = "Give start= to read(): an offset for each partition, or a time for all."
_ONE_BY_ONE: Final = "Leave it out: records are given one by one, by `async for`."
_BATCHES: Final = f"{_ONE_BY_ONE[:-1]}; or as many at once as `member.batches(max_records)` says."
_COMMITTED: Final = "Leave it out: `await member.commit()` returns when the offsets are committed, or raises the error."
_CALLBACKS: Final = "Give on_assigned=, on_revoked= and on_lost= to the member itself."
_AHEAD: Final = "Leave it out: fetch.max.bytes bounds what is fetched ahead."
_NO_TOPICS: Final = "Leave it out: reading never creates a topic."
_LOGS: Final = "Leave it out: messages go to logging.getLogger('aioprod')."
_VERSIONS: Final = "Leave it out: versions are negotiated with each broker."
_ON_DELIVERY: Final = (
    "Give on_delivery=f to send_nowait(): f(metadata, error) is called with the outcome of the record."
)
_STATISTICS: Final = (
    "Call metrics() at any time, or set metric.reporters, which get the numbers once in each metrics.sample.window.ms."
)
_SOCKET: Final = "Leave it out: sockets of this client always have it so."

OTHER_NAMES: Final[Mapping[Role, Mapping[str, str]]] = {
    "any client": {
        "metadata.broker.list": "bootstrap.servers",
        "brokers": "bootstrap.servers",
        "api.version": _VERSIONS,
        "api.version.request": _VERSIONS,
        "api.version.auto.timeout.ms": _VERSIONS,
        "broker.version.fallback": _VERSIONS,
        "loop": "Leave it out: a client belongs to the event loop in which it is started.",
        "error.cb": "Leave it out: calls raise what makes them fail, the rest goes to logging.getLogger('aioprod').",
        "log.cb": _LOGS,
        "logger": _LOGS,
        "log.level": _LOGS,
        "debug": _LOGS,
        "socket.timeout.ms": "request.timeout.ms",
        "socket.send.buffer.bytes": "send.buffer.bytes",
        "socket.receive.buffer.bytes": "receive.buffer.bytes",
        "socket.keepalive.enable": _SOCKET,
        "socket.nagle.disable": _SOCKET,
        "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
        "broker.address.family": "Leave it out: all addresses of a host are tried, of IPv6 and of IPv4.",
        "throttle.cb": "Leave it out: the client waits for as long as a broker throttles it.",
        "stats.cb": _STATISTICS,
        "statistics.interval.ms": "Leave it out: metrics.sample.window.ms says how often metric.reporters get numbers.",
        "log.connection.close": _LOGS,
        "socket.max.fails": "Leave it out: a connection ends with the first failure, and is made again.",
        "receive.message.max.bytes": "Leave it out: a response may have 100 MB.",
        "default.topic.config": "Give these settings to the client itself.",
        "enable.ssl.certificate.verification": "Leave it out: certificates are always verified. Name the CA's in "
        "ssl.truststore.location.",
        "sasl.mechanisms": "sasl.mechanism",
        "sasl.plain.username": "sasl.username",
        "sasl.plain.password": "sasl.password",
        "sasl.oauth.token.provider": "sasl.token.provider",
        "oauth.cb": "Set sasl.token.provider to a function without arguments that returns an aioprod.OAuthToken.",
        "ssl.ca.location": "ssl.truststore.location",
        "ssl.cafile": "ssl.truststore.location",
        "ssl.certificate.location": "ssl.keystore.location",
        "ssl.certfile": "ssl.keystore.location",
        "ssl.keyfile": "Put the key into the file of ssl.keystore.location, before or after its certificates.",
        "ssl.key.location": "Put the key into the file of ssl.keystore.location, before or after its certificates.",
        "ssl.check.hostname": "Leave it out for True; for False set ssl.endpoint.identification.algorithm to ''.",
    },
    "producer": {
        "message.timeout.ms": "delivery.timeout.ms",
        "request.required.acks": "acks",
        "queue.buffering.max.ms": "linger.ms",
        "queue.buffering.max.messages": "Records have no limit but that of their bytes: buffer.memory.",
        "queue.buffering.max.kbytes": "Set buffer.memory, which is in bytes.",
        "message.max.bytes": "max.request.size",
        "message.send.max.retries": "retries",
        "batch.num.messages": "A batch has no limit of records but that of their bytes: batch.size.",
        "max.batch.size": "batch.size",
        "max.in.flight": "max.in.flight.requests.per.connection",
        "max.in.flight.requests": "max.in.flight.requests.per.connection",
        "compression.codec": "compression.type",
        "compression.level": "Set the level of the codec in use: compression.gzip.level, compression.lz4.level or "
        "compression.zstd.level.",
        "error.cb": "Set on_error=f: f(error, record) is called for each failed record without a waiter. What is "
        "wrong with brokers goes to logging.getLogger('aioprod').",
        "on.delivery": _ON_DELIVERY,
        "dr.cb": _ON_DELIVERY,
        "dr.msg.cb": _ON_DELIVERY,
        "delivery.report.only.error": "Leave it out: on_error=f gets failed records only.",
        "sticky.partitioning.linger.ms": "Leave it out: the partition changes when its batch is full.",
        "allow.auto.create.topics": "Leave it out: the brokers decide, by their auto.create.topics.enable.",
        "group.id": "A producer belongs to no group: aioprod.Member(..., group_id=...) reads in one.",
    },
    "reader": {
        "group.id": _NO_GROUP,
        "group.instance.id": _GROUPS,
        "group.protocol": _GROUPS,
        "group.remote.assignor": _GROUPS,
        "partition.assignment.strategy": _GROUPS,
        "session.timeout.ms": _GROUPS,
        "heartbeat.interval.ms": _GROUPS,
        "max.poll.interval.ms": _GROUPS,
        "enable.auto.commit": _GROUPS,
        "auto.commit.interval.ms": _GROUPS,
        "auto.commit.enable": _GROUPS,
        "enable.auto.offset.store": _GROUPS,
        "exclude.internal.topics": _GROUPS,
        "auto.offset.reset": _START,
        "fetch.message.max.bytes": "max.partition.fetch.bytes",
        "fetch.wait.max.ms": "fetch.max.wait.ms",
        "fetch.error.backoff.ms": "retry.backoff.ms",
        "fetch.queue.backoff.ms": _AHEAD,
        "queued.min.messages": _AHEAD,
        "queued.max.messages.kbytes": _AHEAD,
        "max.poll.records": _ONE_BY_ONE,
        "consumer.timeout.ms": "Put `asyncio.timeout()` around the wait for a record.",
        "enable.partition.eof": "Leave it out: aioprod.read() ends at the end of the topic, a member waits for more.",
        "allow.auto.create.topics": _NO_TOPICS,
        "interceptor.classes": "Leave it out: readers and members have no interceptors.",
    },
    "member": {
        "auto.commit.enable": "enable.auto.commit",
        "enable.auto.offset.store": "Leave it out: enable.auto.commit commits the records that were polled past, and "
        "`await member.commit(record)` any other.",
        "on.commit": _COMMITTED,
        "rebalance.timeout.ms": "max.poll.interval.ms",
        "max.poll.records": _BATCHES,
        "rebalance.cb": _CALLBACKS,
        "rebalance.listener": _CALLBACKS,
        "listener": _CALLBACKS,
        "on.assign": _CALLBACKS,
        "on.revoke": _CALLBACKS,
    },
}
"""A role -> name, with dots -> the setting to use here, or sentences about what to do."""

_LOOKED_UP: Final[Mapping[Role, tuple[Role, ...]]] = {
    "any client": ("any client",),
    "producer": ("producer", "any client"),
    "reader": ("reader", "any client"),
    "member": ("member", "reader", "any client"),
}


def advice(name: str, role: Role) -> str | None:
    """The setting to use in place of `name` (in Java's spelling), or sentences; None if no client has such a name."""
    for whose in _LOOKED_UP[role]:
        if name in OTHER_NAMES[whose]:
            return OTHER_NAMES[whose][name]
    return None


def pointless_because(name: str, role: Role) -> str | None:
    """Why nothing is to be set in place of `name` (in Java's spelling); None for a name that has a meaning here."""
    said = advice(name, role)
    if said is None or not (said.startswith(_LEAVE_OUT) or said in (_NO_GROUP, _START)):
        return None
    return said.removeprefix(_LEAVE_OUT).removesuffix(".")
