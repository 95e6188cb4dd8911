"""The relay of a spool: which transactional id it has, and what becomes of records that brokers will never take."""

from __future__ import annotations

from typing import NamedTuple

from aioprod.config import ProducerConfig
from aioprod.producer import Producer
from aioprod.relay.loop import RelayLoop, RelaySettings, Surroundings
from aioprod.spool.receipts import SetAside
from aioprod.spool.source import SpoolSource
from aioprod.spool.waiters import Watched
from aioprod.types import ErrorCallback

__all__ = ["RelayTerms", "new_relay", "producer_config"]


class RelayTerms(NamedTuple):
    """How records come from a folder to Kafka."""

    transactional_id: str | None = None
    """None: `aioprod-spool.<the folder's id>`."""
    is_exactly_once: bool = True
    marker_topic: str | None = None
    sets_aside: bool = False
    """Whether records that brokers will never take are set aside; else they end the relay."""


def producer_config(config: ProducerConfig, terms: RelayTerms, transactional_id: str) -> ProducerConfig:
    """The settings of a relay's producers; raises ConfigError for those that have no transactions."""
    return config.replace(
        key_serializer=None,
        value_serializer=None,
        interceptor_classes=(),
        transactional_id=transactional_id if terms.is_exactly_once else None,
    )


def new_relay(
    source: SpoolSource,
    config: ProducerConfig,
    terms: RelayTerms,
    *,
    watched: Watched,
    on_error: ErrorCallback | None,
    surroundings: Surroundings,
) -> RelayLoop:
    """A relay that was not started; raises ConfigError."""
    transactional_id = terms.transactional_id or f"aioprod-{source.owner.replace('-', '.', 1)}"
    own = producer_config(config, terms, transactional_id)
    return RelayLoop(
        source,
        lambda: Producer(config=own),
        RelaySettings(transactional_id, terms.is_exactly_once, terms.marker_topic),
        outcomes=watched,
        set_aside=SetAside(source, watched, on_error) if terms.sets_aside else None,
        surroundings=surroundings,
    )
