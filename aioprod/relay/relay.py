"""`Relay`: brings the records of a source to Kafka, each once and in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn
from uuid import uuid4

from aioprod._logger import Logger
from aioprod._short_reprs import shown
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, ConfigError, MarkerError, UsageError
from aioprod.metrics.families import Family
from aioprod.net.protocol.backoff import Backoff
from aioprod.producer import Producer
from aioprod.relay.delivery import AtLeastOnce, Delivery, ExactlyOnce
from aioprod.relay.failures import ReplacedError, ends, is_fenced
from aioprod.relay.health import Lag, RelayHealth
from aioprod.relay.markers import Markers
from aioprod.relay.meters import RelayMetrics
from aioprod.relay.runs import Run, RunReader
from aioprod.relay.source import Source

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import PartitionerOption, RelayOptions

__all__ = ["Relay"]

_logger = Logger("aioprod.relay")

_RENEWED_EVERY_S: Final = 86_400.0
"""How often the marker is committed without records: brokers delete offsets that are a week old."""
_BACKOFF: Final = Backoff(0.1, 10.0)
"""The pauses after failures."""
_FENCED_PAUSE_S: Final = 1.0
"""The pause of a relay that was fenced, at least: a successor writes its name into the marker meanwhile."""


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
        if delivery not in ("exactly-once", "at-least-once"):
            raise ConfigError(f"delivery is {delivery!r}: it must be 'exactly-once' or 'at-least-once'.")
        if not isinstance(transactional_id, str) or not transactional_id:
            raise ConfigError("transactional_id must be a name that no other running relay or producer has.")
        self._source = source
        self._id = transactional_id
        self._marker_topic = marker_topic
        self._options: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "config": config,
            "partitioner": partitioner,
            **options,
            "transactional_id": transactional_id if delivery == "exactly-once" else None,
        }
        self._is_exactly_once = delivery == "exactly-once"
        self._producer = self._new_producer()
        """The present one, or the one that has failed last; the first only checks the options."""
        self._claim = uuid4().hex[:16]
        """The name by which markers show that this relay wrote them."""
        self._may_be_replaced = False
        """Whether brokers have said that another producer has the transactional id."""
        self._position: bytes | None = None
        self._state = "new"
        self._error: BaseException | None = None
        self._failures = 0
        self._unsent: list[Run] = []
        """The runs that were read and are not in Kafka yet: two at most."""
        self._metrics = RelayMetrics(self.lag)
        self._runs = RunReader(source, time.monotonic)
        self._random = Random()  # noqa: S311  # for jitter

    # --- what is known

    @property
    def position(self) -> bytes | None:
        """That of the last record that is in Kafka for good; None before it is known, and before the first one."""
        return self._position

    @property
    def client_id(self) -> str:
        """The name of its producer at the brokers: `client.id`, or that of all that have none."""
        return self._producer.client_id

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the relay lives in; None before it is started."""
        return self._producer.event_loop

    def lag(self) -> Lag:
        """What was read from the source and is not in Kafka yet."""
        unsent = self._unsent
        if not unsent:
            return Lag(0, 0.0)
        return Lag(sum(len(run.rows) for run in unsent), time.monotonic() - unsent[0].read_at)

    def health(self) -> RelayHealth:
        """The health of the relay now, without a request."""
        return RelayHealth(self._state, self.lag(), self._error, self._failures)

    def metrics(self) -> dict[str, float]:
        """The present value of every metric of the relay, and of its present producer, by name."""
        return self._metrics.snapshot() | self._producer.metrics()

    def metric_families(self) -> list[Family]:
        """The same for monitoring systems; every name once."""
        return self._metrics.families() + self._producer.metric_families()

    def __repr__(self) -> str:
        return f"<Relay {self._id!r} of {shown(self._source.owner)}: {self._state}>"

    # --- running

    async def run(self) -> NoReturn:
        """Bring records to Kafka until cancelled. After a failure that may pass it logs a warning, and starts again.

        Raises ProducerFencedError when another relay has taken over, MarkerError when marker and source don't belong
        together; ConfigError, AuthorizationError, InvalidRecordError, DeliveryError and the like for what no repetition
        mends, such as a record that is too large: nothing is skipped. What else the source raises is raised, too.
        """
        if self._state not in ("new", "ended"):
            raise UsageError("This relay runs already.")
        self._state = "starting"
        try:
            while True:
                try:
                    await self._run_once()
                except (AioprodError, OSError) as error:
                    await self._pause_after(error)
        except BaseException as error:
            self._error = None if isinstance(error, asyncio.CancelledError) else error
            self._state = "ended"
            raise

    async def _run_once(self) -> NoReturn:
        """Deliver runs until something fails."""
        self._producer = producer = self._new_producer()
        markers = Markers(producer.config, self._id, self._source.owner)
        if self._may_be_replaced:
            self._check_claim(await markers.last_claim())
            self._may_be_replaced = False
        try:
            await producer.start()
            delivery = self._delivery(producer, markers)
            self._position = await delivery.begin()
            await self._source.read(self._position, 1)
            if self._position is not None:  # Its last records may be those of a relay that died before it said so.
                await self._source.delivered(self._position)
            _logger.info("%r continues behind position %s", self, shown(self._position))
            try:
                await self._deliver_runs(delivery)
            except MarkerError:
                await self._check_dropped(markers)
                raise
        finally:
            # What is not committed will be read again: nothing has to be waited for.
            await producer.close(timeout=0)

    async def _deliver_runs(self, delivery: Delivery) -> NoReturn:
        reading = self._read_after(self._position, delivery)
        try:
            while True:
                run = await self._next_run(reading, delivery)
                reading = self._read_after(run.position, delivery)
                await self._deliver(delivery, run)
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            self._unsent.clear()

    def _read_after(self, position: bytes | None, delivery: Delivery) -> asyncio.Task[None]:
        """Read the next run, while the one before is on its way."""

        async def read() -> None:
            self._unsent.append(await self._runs.next(position, delivery.prepare))

        return asyncio.create_task(read(), name="aioprod relay reads")

    async def _next_run(self, reading: asyncio.Task[None], delivery: Delivery) -> Run:
        self._state = "running"
        while not (await asyncio.wait([reading], timeout=_RENEWED_EVERY_S))[0]:
            await delivery.renew()
        await reading
        return self._unsent[0]

    async def _deliver(self, delivery: Delivery, run: Run) -> None:
        start = time.monotonic()
        await delivery.deliver(run)
        self._metrics.delivered(len(run.rows), time.monotonic() - start)
        self._position = run.position
        self._unsent.remove(run)
        self._failures, self._error = 0, None
        await self._source.delivered(run.position)

    # --- failures

    async def _pause_after(self, error: AioprodError | OSError) -> None:
        """Wait before the next try; raises the error if that would be of no use."""
        self._may_be_replaced |= is_fenced(error)
        if ends(error):
            raise error
        self._state, self._error = "waiting", error
        pause_s = _BACKOFF.delay_s(self._failures, self._random)
        self._failures += 1
        self._metrics.failures.add()
        self._runs.begin_small()
        if self._may_be_replaced:
            pause_s = max(pause_s, _FENCED_PAUSE_S)
        _logger.warning("%r starts again in %.1f s: %s", self, pause_s, error)
        await asyncio.sleep(pause_s)

    def _check_claim(self, last: str) -> None:
        """Raise ReplacedError if the last marker has another relay's name: a successor, which must not be fenced.

        Brokers answer the same after a transaction that took too long. The marker shows which relay wrote it.
        """
        if last not in ("", self._claim):
            raise ReplacedError(
                f"Another relay with the transactional.id {self._id!r} has taken over, and this one stops.",
                hint="Run one for each source.",
            )

    async def _check_dropped(self, markers: Markers) -> None:
        """Raise ReplacedError if what the source lacks is what a successor has delivered, as far as brokers answer."""
        last = ""
        with suppress(AioprodError):
            last = await markers.last_claim()
        self._check_claim(last)

    # --- parts

    def _new_producer(self) -> Producer:
        return Producer(**self._options)

    def _delivery(self, producer: Producer, markers: Markers) -> Delivery:
        if not self._is_exactly_once:
            return AtLeastOnce(producer, self._source.owner)
        return ExactlyOnce(producer, markers, self._marker_topic, self._claim)
