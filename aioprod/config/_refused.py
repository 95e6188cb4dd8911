"""Java settings that have no field here, with the reason that the user is told."""

from __future__ import annotations

from fnmatch import fnmatchcase

_JVM = "it makes no sense outside the JVM."

REFUSED_SETTINGS = {
    "ssl.engine.factory.class": _JVM,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.provider": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "ssl.*": "TLS is not built yet in this version.",
    "sasl.*": "SASL is not built yet in this version.",
    "security.providers": _JVM,
    "config.providers": "look values up before they are handed to aioprod.",
    "config.providers.*": "look values up before they are handed to aioprod.",
    "auto.include.jmx.reporter": _JVM,
    "bootstrap.resolve.timeout.ms": "start() resolves names again and again, within max.block.ms.",
    "buffer.memory.allocation.strategy": "buffers always grow as they fill.",
}
"""Java name, or a pattern of names -> why it can't be set. The first row that matches counts."""


def refusal(name: str) -> str | None:
    """Return why the Java setting `name` can't be set, or None if it is not one of the refused."""
    return next((reason for pattern, reason in REFUSED_SETTINGS.items() if fnmatchcase(name, pattern)), None)
