"""aioprod's settings in the words of other clients: for `aioprod perf`, the benchmarks and the tests with real brokers.

It imports no other module of aioprod, as the processes in which those clients are measured import it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["aiokafka_settings", "librdkafka_settings"]

_LIBRDKAFKA: Final = {
    "ssl_truststore_location": "ssl.ca.location",
    "ssl_truststore_certificates": "ssl.ca.pem",
    "ssl_keystore_key": "ssl.key.pem",
    "ssl_keystore_certificate_chain": "ssl.certificate.pem",
}
_AIOKAFKA: Final = {
    "batch_size": "max_batch_size",
    "sasl_username": "sasl_plain_username",
    "sasl_password": "sasl_plain_password",
}


def librdkafka_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of confluent-kafka, which rejects names that it lacks."""
    return {_LIBRDKAFKA.get(name, name.replace("_", ".")): value for name, value in given.items()}


def aiokafka_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of aiokafka, which rejects names that it lacks, and takes TLS as a context."""
    rest = dict(given)
    trusted = {
        "cafile": rest.pop("ssl_truststore_location", None),
        "cadata": rest.pop("ssl_truststore_certificates", None),
    }
    found = {_AIOKAFKA.get(name, name): value for name, value in rest.items()}
    if found.get("compression_type") == "none":
        found["compression_type"] = None
    if "SSL" in given.get("security_protocol", ""):
        found["ssl_context"] = ssl.create_default_context(**trusted)
    return found
