"""Every setting of librdkafka, and what it is here: the table of the page about confluent-kafka.

Names are those of librdkafka's CONFIGURATION.md, in librdkafka.txt. What aioprod itself knows of a name, in its
settings and in its hints, comes after `_WORDS`, which has what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

from aioprod.config import ProducerConfig, SecurityConfig, settings_of
from aioprod.config._other_clients import Role, advice
from aioprod.config._unsupported import unsupported_because
from aioprod.group import MemberConfig
from tools.documentation.links import ROOT

__all__ = ["NAMES", "PAGE", "filled", "meaning"]

PAGE: Final = ROOT / "docs" / "migrating-confluent-kafka.md"
_TABLE: Final = re.compile(r"(?<=<!-- librdkafka: made by `make generate` -->\n).*?(?=\n\n)", re.DOTALL)

_INNER: Final = "Leave it out: it is about the inside of librdkafka."
_PLATFORM: Final = "Leave it out: give an `ssl_context` for what Python's `ssl` can do beside the settings here."
_OFFSETS: Final = "Leave it out: offsets are kept by the group's coordinator."
_CALLBACK: Final = "Leave it out: it is a callback of librdkafka's loop."

_WORDS: Final[dict[str, str]] = {
    "compression.codec": "`compression.type`",
    "enable.gapless.guarantee": "Leave it out: order holds also after a batch that failed, in a new epoch.",
    "enable.random.seed": _INNER,
    "enable.metrics.push": "Leave it out: no metrics are pushed to the brokers.",
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
    "enabled.events log.queue log.thread.name broker.address.ttl queuing.strategy "
    "api.version.request.timeout.ms api.version.fallback.ms coordinator.query.interval.ms": _INNER,
    "background.event.cb socket.cb connect.cb closesocket.cb open.cb resolve.cb msg.order.cmp consume.cb "
    "consume.callback.max.messages": _CALLBACK,
    "ssl.curves.list ssl.sigalgs.list ssl.key ssl.certificate ssl.ca ssl.ca.certificate.stores ssl.crl.location "
    "ssl.providers ssl.engine.location ssl.engine.id ssl.engine.callback.data ssl.certificate.verify.cb": _PLATFORM,
    "offset.store.method offset.store.path offset.store.sync.interval.ms offset.commit.cb": _OFFSETS,
}

NAMES: Final = tuple(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split())


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
