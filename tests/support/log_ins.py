"""The settings of a log-in of aioprod's, as `Security.client_options` gives them, in the words of the other clients."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["aiokafka_settings", "librdkafka_settings"]

_LIBRDKAFKA: Final = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_username": "sasl.username",
    "sasl_password": "sasl.password",
    "ssl_truststore_certificates": "ssl.ca.pem",
    "ssl_keystore_key": "ssl.key.pem",
    "ssl_keystore_certificate_chain": "ssl.certificate.pem",
}
_AIOKAFKA: Final = {
    "security_protocol": "security_protocol",
    "sasl_mechanism": "sasl_mechanism",
    "sasl_username": "sasl_plain_username",
    "sasl_password": "sasl_plain_password",
}


def librdkafka_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Those of confluent-kafka; KeyError for a setting that it lacks."""
    return {_LIBRDKAFKA[name]: value for name, value in options.items()}


def aiokafka_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of aiokafka, which takes TLS as a context; KeyError for a setting that it lacks."""
    given = dict(options)
    trusted = given.pop("ssl_truststore_certificates", None)
    found: dict[str, Any] = {_AIOKAFKA[name]: value for name, value in given.items()}
    if trusted is not None:
        found["ssl_context"] = ssl.create_default_context(cadata=trusted)
    return found
