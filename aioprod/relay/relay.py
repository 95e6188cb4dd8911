"""`Relay` is the class that users import: the arguments that it takes. `RelayLoop` does the work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError
from aioprod.metrics.families import Family
from aioprod.producer import Producer
from aioprod.relay.delivery import says_exactly_once
from aioprod.relay.health import Lag, RelayHealth
from aioprod.relay.loop import RelayLoop, RelaySettings
from aioprod.relay.source import MeasuredSource, Source

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import PartitionerOption, RelayOptions

__all__ = ["Relay"]


class Relay:
    """Takes records from `source`, and writes runs of them to Kafka, each exactly once and in the source's order.

        await Relay(source, "host:9092", transactional_id="shop-outbox").run()

    A run is one transaction with a marker in it: "these records came from this source, up to this position". Wherever
    the process dies, the next relay with the same `transactional_id` fences it, reads the marker, and continues behind
    it. Readers with isolation.level=read_committed see each record once. The marker is an offset of partition 0 of
    `marker_topic`, by default the topic of the source's first record, for the group `aioprod-eos.<transactional_id>`.

    With `delivery="at-least-once"`, for brokers without transactions, records may be repeated after a failure; the
    headers `aioprod-source` and `aioprod-position` let readers drop those that they have had.

    `config` and `options` are those of `Producer`. Raises ConfigError. Touches no network before `run()`.
    """

    def __init__(
        self,
        source: Source,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        transactional_id: str,
        marker_topic: str | None = None,
        delivery: Literal["exactly-once", "at-least-once"] = "exactly-once",
        config: ProducerConfig | Mapping[str, Any] | None = None,
        partitioner: PartitionerOption | None = None,
        **options: Unpack[RelayOptions],
    ) -> None:
        is_exactly_once = says_exactly_once(delivery)
        if not isinstance(transactional_id, str) or not transactional_id:
            raise ConfigError("transactional_id must be a name that no other running relay or producer has.")
        options_of_producer: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "config": config,
            "partitioner": partitioner,
            **options,
            "transactional_id": transactional_id if is_exactly_once else None,
        }
        settings = RelaySettings(transactional_id, is_exactly_once, marker_topic)
        self._measured = source if isinstance(source, MeasuredSource) else None
        self._loop = RelayLoop(source, lambda: Producer(**options_of_producer), settings)

    # --- what is known

    @property
    def position(self) -> bytes | None:
        """That of the last record that is in Kafka for good; None before it is known, and before the first one."""
        return self._loop.position

    @property
    def client_id(self) -> str:
        """The name of its producer at the brokers: `client.id`, or that of all that have none."""
        return self._loop.producer.client_id

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the relay lives in; None before it is started."""
        return self._loop.producer.event_loop

    def lag(self) -> Lag:
        """What was read from the source and is not in Kafka yet."""
        return self._loop.lag()

    def health(self) -> RelayHealth:
        """The health of the relay now, without a request."""
        return self._loop.health()

    def metrics(self) -> dict[str, float]:
        """The present value of every metric of the relay, of its source and of its present producer, by name."""
        of_source = {} if self._measured is None else self._measured.metrics()
        return self._loop.metrics.snapshot() | of_source | self._loop.producer.metrics()

    def metric_families(self) -> list[Family]:
        """The same for monitoring systems; every name once."""
        of_source = [] if self._measured is None else self._measured.metric_families()
        return [*self._loop.metrics.families(), *of_source, *self._loop.producer.metric_families()]

    def __repr__(self) -> str:
        return repr(self._loop)

    async def run(self) -> NoReturn:
        """Bring records to Kafka until cancelled. After a failure that may pass it logs a warning, and starts again.

        Raises ProducerFencedError when another relay has taken over, MarkerError when marker and source don't belong
        together; ConfigError, AuthorizationError, InvalidRecordError, DeliveryError and the like for what no repetition
        mends, such as a record that is too large: nothing is skipped. What else the source raises is raised, too.
        """
        await self._loop.run()
