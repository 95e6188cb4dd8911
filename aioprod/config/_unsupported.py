"""Java's settings that aioprod does not have, with the reasons for errors and for the reference page."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

_JVM: Final = "it makes no sense outside the JVM."
_CHECKS: Final = "it is about how tokens are checked, which is the brokers' business."

UNSUPPORTED_SETTINGS: Final = {
    "ssl.engine.factory.class": _JVM,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.provider": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "sasl.login.class": _JVM,
    "sasl.kerberos.*": "tickets are obtained and renewed by the Kerberos library of the system, as its krb5.conf says.",
    "sasl.oauthbearer.allow.*": _CHECKS,
    "sasl.oauthbearer.clock.*": _CHECKS,
    "sasl.oauthbearer.expected.*": _CHECKS,
    "sasl.oauthbearer.jwks.*": _CHECKS,
    "sasl.oauthbearer.jwt.validator.class": _CHECKS,
    "sasl.oauthbearer.scope.claim.name": _CHECKS,
    "sasl.oauthbearer.sub.claim.name": _CHECKS,
    "security.providers": _JVM,
    "config.providers": "${env:NAME} and ${file:PATH:KEY} in secrets are understood without it, others are not.",
    "config.providers.*": "${env:NAME} and ${file:PATH:KEY} in secrets are understood without it, others are not.",
    "auto.include.jmx.reporter": _JVM,
    "bootstrap.resolve.timeout.ms": "start() resolves names again and again, within max.block.ms.",
    "buffer.memory.allocation.strategy": "buffers always grow as they fill.",
}
"""Java name, or a pattern of names -> why it can't be set. The first row that matches counts."""


def unsupported_because(name: str) -> str | None:
    """Return why the Java setting `name` can't be set, or None for any other name."""
    return next((reason for pattern, reason in UNSUPPORTED_SETTINGS.items() if fnmatchcase(name, pattern)), None)
