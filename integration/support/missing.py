"""What this machine lacks for real brokers, Java and a schema registry: each is looked for once, and then fetched."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from aioprod.testing import KafkaUnavailableError
from aioprod.testing.kafka.backends import choose_backend
from aioprod.testing.kafka.jars import DEFAULT_VERSION, java, kafka_libs
from integration.support.apicurio import apicurio_home

__all__ = ["missing_for_apicurio", "missing_for_brokers", "missing_for_java"]


@cache
def missing_for_brokers() -> str | None:
    """For brokers of AIOPROD_KAFKA; nothing where it names a backend, whose absence is an error then."""
    if os.environ.get("AIOPROD_KAFKA", "auto") != "auto":
        return None
    return _missing(_choose_and_close)


@cache
def missing_for_java() -> str | None:
    """For Kafka's own classes, and for programs that start local brokers."""
    return _missing(java, kafka_libs)


@cache
def missing_for_apicurio() -> str | None:
    """For the registry; it is fetched with the Java that it needs."""
    return _missing(apicurio_home)


def _choose_and_close() -> None:
    backend = choose_backend("auto", DEFAULT_VERSION, None)
    assert not isinstance(backend, tuple)
    backend.close()


def _missing(*fetches: Callable[[], object]) -> str | None:
    try:
        for fetch in fetches:
            fetch()
    except KafkaUnavailableError as error:
        return str(error)
    return None
