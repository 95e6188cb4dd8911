"""The loop of a relay: read a run, deliver it, and start again after failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple, NoReturn

from aioprod._logger import Logger
from aioprod._short_reprs import shown
from aioprod.errors import AioprodError, MarkerError, UsageError
from aioprod.net.protocol.backoff import Backoff
from aioprod.producer import Producer
from aioprod.relay.claim import Claim
from aioprod.relay.columns import Row
from aioprod.relay.delivery import AtLeastOnce, Delivery, ExactlyOnce
from aioprod.relay.failures import ends, is_fenced, is_poison
from aioprod.relay.health import Lag, RelayHealth
from aioprod.relay.markers import Markers
from aioprod.relay.meters import RelayMetrics
from aioprod.relay.outcomes import UNWATCHED, Outcomes
from aioprod.relay.runs import Run, RunReader
from aioprod.relay.source import ExclusiveSource, Source
from aioprod.types import RecordMetadata

__all__ = ["RelayLoop", "RelaySettings", "SetAside", "Surroundings"]

_logger = Logger("aioprod.relay")

_RENEWED_EVERY_S: Final = 86_400.0
"""How often the marker is committed without records: brokers delete offsets that are a week old."""
_BACKOFF: Final = Backoff(0.1, 10.0)
"""The pauses after failures."""
_FENCED_PAUSE_S: Final = 1.0
"""The pause of a relay that was fenced, at least: a successor writes its name into the marker meanwhile."""

SetAside = Callable[[Row, AioprodError], Awaitable[None]]
"""Takes a record that brokers will never take out of its source, with the reason."""


class RelaySettings(NamedTuple):
    """How runs are delivered."""

    transactional_id: str
    is_exactly_once: bool
    marker_topic: str | None


class Surroundings(NamedTuple):
    """What a relay takes from its process; the simulation gives it others."""

    start: Callable[[Producer], Awaitable[None]] = Producer.start
    clock: Callable[[], float] = time.monotonic
    random: Random = Random()  # noqa: S311  # for jitter


class RelayLoop:
    """Brings the records of a source to Kafka until it is cancelled. `Relay` and spooled producers run one."""

    def __init__(
        self,
        source: Source,
        new_producer: Callable[[], Producer],
        settings: RelaySettings,
        *,
        outcomes: Outcomes = UNWATCHED,
        set_aside: SetAside | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._source = source
        self._new_producer = new_producer
        self._settings = settings
        self._outcomes = outcomes
        self._set_aside = set_aside
        """What to do with a record that brokers will never take; None: end."""
        self._surroundings = surroundings or Surroundings()
        self.producer = new_producer()
        """The present one, or the one that has failed last; the first only checks the options."""
        self._claim = Claim(settings.transactional_id)
        self._may_be_replaced = False
        """Whether brokers have said that another producer has the transactional id."""
        self.position: bytes | None = None
        """That of the last record that is in Kafka for good; None before it is known, and before the first one."""
        self._state = "new"
        self._error: BaseException | None = None
        self._failures = 0
        self._unsent: list[Run] = []
        """The runs that were read and are not in Kafka yet: two at most."""
        self._failed: Run | None = None
        """The run on its way, or whose delivery has failed last; None when all its records were acknowledged."""
        self._sent: tuple[Run, Mapping[int, RecordMetadata], float] | None = None
        """A run whose records were acknowledged, where they are, and its first send; its commit may have failed."""
        self.metrics = RelayMetrics(self.lag)
        self._runs = RunReader(source, self._surroundings.clock)

    # --- what is known

    def lag(self) -> Lag:
        """What was read from the source and is not in Kafka yet."""
        unsent = self._unsent
        if not unsent:
            return Lag(0, 0.0)
        return Lag(sum(len(run.rows) for run in unsent), self._surroundings.clock() - unsent[0].read_at)

    def health(self) -> RelayHealth:
        """The health of the relay now, without a request."""
        return RelayHealth(self._state, self.lag(), self._error, self._failures)

    def __repr__(self) -> str:
        return f"<Relay {self._settings.transactional_id!r} of {shown(self._source.owner)}: {self._state}>"

    # --- running

    async def run(self) -> NoReturn:
        """Bring records to Kafka until cancelled; raises what no repetition mends."""
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
        if isinstance(self._source, ExclusiveSource):
            await self._source.acquire()
        self.producer = producer = self._new_producer()
        self._failed = None
        markers = Markers(producer.config, self._settings.transactional_id, self._source.owner)
        if self._may_be_replaced:
            self._claim.check(await markers.last_claim())
            self._may_be_replaced = False
        try:
            await self._surroundings.start(producer)
            delivery = self._delivery(producer, markers)
            self.position = await delivery.begin()
            await self._source.read(self.position, 1)
            self._report_sent()
            if self.position is not None:  # Its last records may be those of a relay that died before it said so.
                await self._source.delivered(self.position)
            _logger.info("%r continues behind position %s", self, shown(self.position))
            try:
                await self._deliver_runs(delivery)
            except MarkerError:
                await self._check_dropped(markers)
                raise
        finally:
            # What is not committed will be read again: nothing has to be waited for.
            await producer.close(timeout=0)

    async def _deliver_runs(self, delivery: Delivery) -> NoReturn:
        reading = self._read_after(self.position, delivery)
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
        start = self._surroundings.clock()
        self._failed = run

        def sent(places: Mapping[int, RecordMetadata]) -> None:
            self._sent = (run, places, start)
            self._failed = None  # What fails from now on is not the fault of its records.

        await delivery.deliver(run, sent)
        self.position = run.position
        self._unsent.remove(run)
        self._failures, self._error = 0, None
        self._report_sent()
        await self._source.delivered(run.position)

    def _report_sent(self) -> None:
        """Report where records are, if their run was committed: the marker says so also when no answer has come."""
        if self._sent is not None:
            run, places, start = self._sent
            self._sent = None
            if run.position == self.position:
                self.metrics.delivered(len(run.rows), self._surroundings.clock() - start)
                self._outcomes.delivered(run.rows, places)

    # --- failures

    async def _pause_after(self, error: AioprodError | OSError) -> None:
        """Wait before the next try; raises the error if that would be of no use."""
        self._may_be_replaced |= is_fenced(error)
        if self._set_aside is not None and self._failed is not None and is_poison(error):
            await self._look_for_poison(self._failed, error)
            return
        if ends(error):
            raise error
        self._state, self._error = "waiting", error
        pause_s = _BACKOFF.delay_s(self._failures, self._surroundings.random)
        self._failures += 1
        self.metrics.failures.add()
        self._runs.begin_small()
        if self._may_be_replaced:
            pause_s = max(pause_s, _FENCED_PAUSE_S)
        _logger.warning("%r starts again in %.1f s: %s", self, pause_s, error)
        await asyncio.sleep(pause_s)

    async def _look_for_poison(self, run: Run, error: AioprodError | OSError) -> None:
        """Find the record that brokers will never take by smaller runs; set it aside when it is alone."""
        if len(run.rows) > 1:
            self._runs.narrow(len(run.rows) // 2)
            return
        assert self._set_aside is not None
        assert isinstance(error, AioprodError)
        await self._set_aside(run.rows[0], error)

    async def _check_dropped(self, markers: Markers) -> None:
        """Raise ReplacedError if what the source lacks is what a successor has delivered, as far as brokers answer."""
        last = ""
        with suppress(AioprodError):
            last = await markers.last_claim()
        self._claim.check(last)

    # --- parts

    def _delivery(self, producer: Producer, markers: Markers) -> Delivery:
        if not self._settings.is_exactly_once:
            return AtLeastOnce(producer, self._source, self._outcomes)
        return ExactlyOnce(producer, markers, self._settings.marker_topic, self._claim, self._outcomes)
