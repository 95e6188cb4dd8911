"""Every setting of librdkafka, and what it is here: `python -m documentation.librdkafka` fills the table of the page.

Names are those of librdkafka's CONFIGURATION.md. What aioprod itself knows of a name, in its settings and in its hints,
comes first; `_WORDS` has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, get_args

from aioprod.config import ProducerConfig, SecurityConfig, settings_of
from aioprod.config._other_clients import Role, advice
from aioprod.config._unsupported import unsupported_because
from aioprod.group import MemberConfig
from documentation.links import ROOT

__all__ = ["NAMES", "PAGE", "filled", "meaning"]

PAGE: Final = ROOT / "docs" / "migrating-confluent-kafka.md"
_TABLE: Final = re.compile(r"(?<=<!-- made by `python -m documentation.librdkafka` -->\n).*?(?=\n\n)", re.DOTALL)

_INNER: Final = "Leave it out: it is about the inside of librdkafka."
_PLATFORM: Final = "Leave it out: give an `ssl_context` for what Python's `ssl` can do beside the settings here."
_FETCH: Final = "Leave it out: a member fetches while there is room for its partitions."
_OFFSETS: Final = "Leave it out: offsets are kept by the group's coordinator."
_CALLBACK: Final = "Leave it out: it is a callback of librdkafka's loop."

_WORDS: Final[dict[str, str]] = {
    "auto.commit.enable": "Leave it out: a member commits when you call `commit()`.",
    "compression.codec": "`compression.type`",
    "enable.gapless.guarantee": "Leave it out: order holds also after a batch that failed, in a new epoch.",
    "enable.random.seed": _INNER,
    "fetch.error.backoff.ms": "`retry.backoff.ms`",
    "fetch.queue.backoff.ms": _FETCH,
    "enable.metrics.push": "Leave it out: no metrics are pushed to the brokers.",
    "group.id": "`group_id=` of a `Member`",
    "group.protocol.type": "Leave it out: a member's is always `consumer`.",
    "https.ca.location": "`ssl.truststore.location` within `sasl.jaas.config`",
    "https.ca.pem": "`ssl.truststore.location` within `sasl.jaas.config`, a file",
    "interceptors": "`interceptor.classes`",
    "internal.termination.signal": _INNER,
    "message.copy.max.bytes": _INNER,
    "partitioner": '`partitioner`; for the same partitions as before set `partitioner="consistent_random"`',
    "partitioner.cb": "`partitioner`: a function `f(topic, key, value, cluster)`",
    "plugin.library.paths": _INNER,
    "produce.offset.report": "Leave it out: each outcome has its offset.",
    "queue.buffering.backpressure.threshold": _INNER,
    "receive.message.max.bytes": "Leave it out: a response may have 100 MB.",
    "reconnect.backoff.jitter.ms": "Leave it out: `reconnect.backoff.ms` has a jitter of 20 %.",
    "sasl.oauthbearer.assertion.jwt.template.file": "`sasl.oauthbearer.assertion.template.file`",
    "sasl.oauthbearer.assertion.private.key.pem": "`sasl.oauthbearer.assertion.private.key.file`, a file",
    "sasl.oauthbearer.client.id": "`sasl.oauthbearer.client.credentials.client.id`",
    "sasl.oauthbearer.client.secret": "`sasl.oauthbearer.client.credentials.client.secret`",
    "sasl.oauthbearer.config": "`sasl.jaas.config`, or a `sasl.token.provider` of your own",
    "sasl.oauthbearer.extensions": "`extension_NAME='value'` within `sasl.jaas.config`",
    "sasl.oauthbearer.grant.type": "Leave it out: assertions are used if one of their settings is given.",
    "sasl.oauthbearer.metadata.authentication.type": "`sasl.token.provider`: a function that gets the token",
    "sasl.oauthbearer.method": "Leave it out: a token comes from the endpoint if its URL is given.",
    "socket.max.fails": "Leave it out: a connection ends with the first failure, and is made again.",
    "ssl.ca.pem": "`ssl.truststore.certificates`",
    "ssl.certificate.pem": "`ssl.keystore.certificate.chain`",
    "ssl.key.pem": "`ssl.keystore.key`",
    "topic.blacklist": _INNER,
    "topic.metadata.propagation.max.ms": "Leave it out: a topic counts as missing after two to three seconds.",
    "topic.metadata.refresh.fast.interval.ms": "`retry.backoff.ms`",
    "oauthbearer.token.refresh.cb": "`sasl.token.provider`: a function that returns an `aioprod.OAuthToken`",
    "enable.sasl.oauthbearer.unsecure.jwt": "`sasl.token.provider`: a function that makes such a token",
    "opaque": "Leave it out: a callback is a closure, `functools.partial` or a method.",
    "default.topic.conf": "Give these settings to the client itself.",
}

_ALIKE: Final[dict[str, str]] = {
    "builtin.features topic.metadata.refresh.fast.cnt topic.metadata.refresh.sparse socket.blocking.max.ms "
    "enabled.events log.queue log.thread.name log.connection.close broker.address.ttl queuing.strategy "
    "api.version.request.timeout.ms api.version.fallback.ms coordinator.query.interval.ms": _INNER,
    "background.event.cb socket.cb connect.cb closesocket.cb open.cb resolve.cb msg.order.cmp consume.cb "
    "consume.callback.max.messages": _CALLBACK,
    "ssl.curves.list ssl.sigalgs.list ssl.key ssl.certificate ssl.ca ssl.ca.certificate.stores ssl.crl.location "
    "ssl.providers ssl.engine.location ssl.engine.id ssl.engine.callback.data ssl.certificate.verify.cb": _PLATFORM,
    "offset.store.method offset.store.path offset.store.sync.interval.ms offset.commit.cb": _OFFSETS,
}

NAMES: Final[tuple[str, ...]] = tuple(
    """
    acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    auto.commit.enable auto.commit.interval.ms auto.offset.reset background_event_cb batch.num.messages batch.size
    bootstrap.servers broker.address.family broker.address.ttl broker.version.fallback builtin.features check.crcs
    client.dns.lookup client.id client.rack closesocket_cb compression.codec compression.level compression.type
    connect_cb connections.max.idle.ms consume.callback.max.messages consume_cb coordinator.query.interval.ms debug
    default_topic_conf delivery.report.only.error delivery.timeout.ms dr_cb dr_msg_cb enable.auto.commit
    enable.auto.offset.store enable.gapless.guarantee enable.idempotence enable.metrics.push enable.partition.eof
    enable.random.seed enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification enabled_events error_cb
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type group.remote.assignor
    heartbeat.interval.ms https.ca.location https.ca.pem interceptors internal.termination.signal isolation.level
    linger.ms log.connection.close log.queue log.thread.name log_cb log_level max.in.flight
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms message.copy.max.bytes
    message.max.bytes message.send.max.retries message.timeout.ms metadata.broker.list metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy msg_order_cmp oauthbearer_token_refresh_cb
    offset.store.method offset.store.path offset.store.sync.interval.ms offset_commit_cb opaque open_cb
    partition.assignment.strategy partitioner partitioner_cb plugin.library.paths produce.offset.report
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages queuing.strategy rebalance_cb
    receive.message.max.bytes reconnect.backoff.jitter.ms reconnect.backoff.max.ms reconnect.backoff.ms
    request.required.acks request.timeout.ms resolve_cb retries retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal
    sasl.kerberos.service.name sasl.mechanism sasl.mechanisms sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
    sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method
    sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
    session.timeout.ms socket.blocking.max.ms socket.connection.setup.timeout.ms socket.keepalive.enable
    socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    socket_cb ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
    ssl.certificate.verify_cb ssl.cipher.suites ssl.crl.location ssl.curves.list ssl.endpoint.identification.algorithm
    ssl.engine.id ssl.engine.location ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location
    ssl.keystore.password ssl.providers ssl.sigalgs.list ssl_ca ssl_certificate ssl_engine_callback_data ssl_key
    statistics.interval.ms stats_cb sticky.partitioning.linger.ms throttle_cb topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
    """.split()
)


def meaning(name: str) -> str:
    """What a setting of librdkafka is here: the setting in backticks, or sentences. Raises KeyError for other names."""
    dotted = name.replace("_", ".")
    if dotted in _WORDS:
        return _WORDS[dotted]
    if any(dotted.replace(".", "_") in settings_of(kind) for kind in (ProducerConfig, MemberConfig, SecurityConfig)):
        return f"`{dotted}`"
    for role in sorted(get_args(Role), key=["producer", "member", "reader", "any client"].index):
        if known := advice(dotted, role):
            return known if " " in known else f"`{known}`"
    if reason := unsupported_because(dotted):
        return f"Leave it out: {reason}"
    return next(words for names, words in _ALIKE.items() if dotted in names.split())


def _rows() -> Iterator[str]:
    yield "| librdkafka | aioprod |"
    yield "|---|---|"
    for name in sorted(NAMES, key=lambda each: each.replace("_", ".")):
        here = meaning(name)
        yield f"| `{name}` | {'the same' if here == f'`{name}`' else here} |"


def filled(text: str) -> str:
    """The page with the table that the settings say."""
    return _TABLE.sub(lambda _: "\n".join(_rows()), text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
