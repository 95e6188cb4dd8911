"""aioprod's producer for frameworks that make aiokafka's: FastStream and kstreams."""

from __future__ import annotations

import sys
from typing import Final

from aioprod.compat.aiokafka.producer import AIOKafkaProducer
from aioprod.errors import UsageError

__all__ = ["install"]

_KSTREAMS: Final = ("kstreams.backends.kafka.clients", "kstreams.clients")
"""The modules in which releases of kstreams derive their producer."""


def install() -> None:
    """Put this `AIOKafkaProducer` in the place of aiokafka's, for what looks it up in `aiokafka` from now on.

    FastStream does so when a broker connects. kstreams derives a class from it when it is imported, so call this
    before. A module that has imported the name from aiokafka already keeps what it has. Raises UsageError where
    aiokafka is not installed, or kstreams was imported before.
    """
    try:
        import aiokafka
        import aiokafka.producer
    except ImportError as missing:
        raise UsageError("aiokafka is not installed, so nothing can use it.", hint="pip install aiokafka") from missing
    for name in _KSTREAMS:
        module = sys.modules.get(name)
        if module is not None and not issubclass(module.Producer, AIOKafkaProducer):
            raise UsageError(
                "kstreams was imported before aioprod.compat.aiokafka.install() was called, and has aiokafka's "
                "producer.",
                hint="Call it before the first import of kstreams.",
            )
    aiokafka.AIOKafkaProducer = AIOKafkaProducer
    aiokafka.producer.AIOKafkaProducer = AIOKafkaProducer
