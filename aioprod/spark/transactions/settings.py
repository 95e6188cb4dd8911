"""The settings of exactly-once delivery, checked before any request is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError
from aioprod.producer.transactions.session_settings import TransactionSessionConfig
from aioprod.spark.options import KafkaSettings
from aioprod.spark.transactions.marker import Policy
from aioprod.types import TopicPartition

__all__ = ["TRANSACTION_TIMEOUT_MS", "OnceSettings"]

TRANSACTION_TIMEOUT_MS: Final = 900_000
"""How long a step may take if nothing else is said: the longest that brokers allow if nothing else is said to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceSettings:
    """Whose transactions they are, what they may write, and where their marker is."""

    kafka: KafkaSettings
    transactional_id: str
    topic: str | None = None
    """None: each row names its own."""
    marker_topic: str | None = None
    policy: Policy = Policy.REFUSE
    attempts: int = 4
    default_api_timeout_ms: int = 60_000

    @classmethod
    def of(
        cls,
        kafka: Mapping[str, Any],
        *,
        transactional_id: str,
        topic: str | None = None,
        marker_topic: str | None = None,
        when_marker_is_missing: str = "refuse",
        attempts: int = 4,
        default_api_timeout_ms: int = 60_000,
    ) -> Self:
        """Of settings of Kafka by Java's names or ours, with or without `kafka.` before them; raises ConfigError."""
        if not transactional_id:
            raise ConfigError("transactional.id is empty.", hint="Give a name that no other query or run has.")
        if topic is None and marker_topic is None:
            raise ConfigError(
                "There is no topic for the marker: where rows name their topics, one has to be named for it.",
                hint="Give marker_topic, one of the topics of the rows or any other that stays.",
            )
        if attempts < 1:
            raise ConfigError(f"attempts is {attempts}: it must be at least 1.")
        settings = cls(
            kafka=KafkaSettings({"transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS), **KafkaSettings.named(kafka)}),
            transactional_id=transactional_id,
            topic=topic,
            marker_topic=marker_topic,
            policy=Policy.of(when_marker_is_missing),
            attempts=attempts,
            default_api_timeout_ms=default_api_timeout_ms,
        )
        ProducerConfig.from_options(**settings.kafka.producer() | {"transactional_id": transactional_id})
        settings.session()
        return settings

    @property
    def marker(self) -> TopicPartition:
        """The partition that the marker's group has its offset for."""
        topic = self.marker_topic or self.topic
        assert topic is not None
        return TopicPartition(topic, 0)

    def session(self) -> TransactionSessionConfig:
        """The settings of the driver's session: what a producer's have in common with it."""
        return TransactionSessionConfig.from_dict(
            {
                **self.kafka.part_of(TransactionSessionConfig),
                "transactional.id": self.transactional_id,
                "default.api.timeout.ms": self.default_api_timeout_ms,
            }
        )
