"""What the producer measures, once per batch or request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aioprod.interceptors import Interceptors
from aioprod.metrics import ProducerMetrics
from aioprod.metrics.families import OTHER
from aioprod.metrics.instruments import Counter, Histogram
from aioprod.metrics.producer import NodeTotals
from aioprod.net.client import Client
from aioprod.net.traffic import Traffic, TrafficOfBrokers
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import BrokerQueue
from aioprod.records.layout import HEADER

if TYPE_CHECKING:
    from aioprod.cluster.zone_bytes import ZoneBytes

__all__ = ["Meters"]


class Meters:
    """Feeds `ProducerMetrics` from the events of batches and requests."""

    __slots__ = (
        "_batch_size",
        "_compression_rate",
        "_connected",
        "_latencies",
        "_record_delivery_time",
        "_record_queue_time",
        "_records_per_request",
        "_request_latency",
        "_throttle_time",
        "_topics",
        "_zones",
        "loop_hold",
        "metrics",
    )

    def __init__(self, topics_max: int) -> None:
        self.metrics = metrics = ProducerMetrics(topics_max)
        self._topics = metrics.topics
        self._connected: set[int] = set()
        """The ids of the brokers with a connection."""
        self._latencies: dict[int, Histogram] = {}
        """The latency of the requests to each broker, by its id."""
        self._batch_size = metrics.batch_size
        self._compression_rate = metrics.compression_rate
        self.loop_hold = metrics.loop_hold
        """Takes for how long the event loop could do nothing else, in ms."""
        self._record_delivery_time = metrics.record_delivery_time
        self._record_queue_time = metrics.record_queue_time
        self._records_per_request = metrics.records_per_request
        self._request_latency = metrics.request_latency
        self._throttle_time = metrics.produce_throttle_time
        self._zones: ZoneBytes | None = None
        """Bytes by zone; None without `client.rack`."""

    def watch(
        self, accumulator: Accumulator, client: Client, interceptors: Interceptors, clock: Callable[[], float]
    ) -> None:
        """Read from these parts what is a state and no event."""
        metrics = self.metrics
        if client.settings.rack:
            from aioprod.cluster.zone_bytes import ZoneBytes  # Most producers have no rack.

            zones = self._zones = ZoneBytes(client.settings.rack, lambda: client.metadata.cluster)
            metrics.bytes_sent_within_zone_total.observe(lambda: zones.within)
            metrics.bytes_sent_across_zones_total.observe(lambda: zones.across)
        budget = accumulator.budget
        metrics.buffer_total_bytes.observe(lambda: budget.limit)
        metrics.buffer_available_bytes.observe(lambda: max(0, budget.limit - budget.used))
        metrics.waiting_senders.observe(lambda: len(budget.waiting) + len(budget.stuck.waiting))
        metrics.requests_in_flight.observe(lambda: sum(queue.in_flight for queue in accumulator.queues.values()))
        metrics.in_flight_full_ratio.observe(lambda: _full_ratio(accumulator.queues))
        metrics.connection_count.observe(lambda: len(self._connected))
        metrics.loop_gap_max.observe(lambda: self.loop_hold.max)
        metrics.metadata_age_s.observe(lambda: client.metadata.age(clock()))
        logins = client.authentications
        metrics.successful_authentication_total.observe(lambda: logins.successful)
        metrics.failed_authentication_total.observe(lambda: logins.failed)
        metrics.successful_reauthentication_total.observe(lambda: logins.renewals.count)
        metrics.failed_reauthentication_total.observe(lambda: logins.failed_renewals)
        metrics.reauthentication_latency_avg.observe(lambda: logins.renewals.average)
        metrics.reauthentication_latency_max.observe(lambda: logins.renewals.max)
        metrics.credentials_expire_s.observe(lambda: client.credentials_expire_s)
        sequences = accumulator.sequences
        metrics.epoch_bumps.observe(lambda: 0 if sequences is None else sequences.bumps)
        metrics.interceptor_failures.observe(lambda: interceptors.failures)
        traffic = client.traffic
        metrics.observe_traffic(lambda: _by_broker(traffic, accumulator.queues))

    @property
    def buffer_wait_ns(self) -> Counter:
        """How long calls have waited for room in the buffer."""
        return self.metrics.bufferpool_wait_time_ns_total

    def sent(self, node_id: int, batches: list[Batch], now: float) -> None:
        """A Produce request with these sealed batches leaves for a broker."""
        records = total = 0
        for batch in batches:
            builder = batch.builder
            count = builder.count
            size = builder.size
            compressed_size = builder.compressed_size
            records += count
            total += compressed_size
            self._batch_size.record(compressed_size)
            self._topics.sent(batch.partition.topic.name, count, compressed_size, size)
            if batch.attempts == 1:
                self._record_queue_time.record((now - batch.created) * 1000)
                self._compression_rate.record((compressed_size - HEADER) / float(size - HEADER))
        self._records_per_request.record(records)
        if self._zones is not None:
            self._zones.add(node_id, total)

    def answered(self, node_id: int, latency_s: float, throttle_time_ms: int) -> None:
        """A broker answered a Produce request."""
        self._request_latency.record(latency_s * 1000)
        latency = self._latencies.get(node_id)
        if latency is None:
            latency = self._latencies[node_id] = self.metrics.latency_of(node_id)
        latency.record(latency_s * 1000)
        self._throttle_time.record(throttle_time_ms)

    def delivered(self, batch: Batch, now: float) -> None:
        """A batch was acknowledged."""
        self._record_delivery_time.record((now - batch.created) * 1000)

    def connected(self, node_id: int) -> None:
        """A connection to a broker is up."""
        self._connected.add(node_id)
        self.metrics.connection_creation_total.add()

    def disconnected(self, node_id: int) -> None:
        """The connection to a broker, if there was one, is gone."""
        if node_id in self._connected:
            self._connected.remove(node_id)
            self.metrics.connection_close_total.add()

    def retried(self, batch: Batch) -> None:
        """A batch will be sent again."""
        self.metrics.record_retry_total.add(batch.records)
        self._topics.of(batch.partition.topic.name).retried(batch.records)

    def split(self) -> None:
        """A batch was too large for the broker."""
        self.metrics.batch_split_total.add()

    def failed(self, batch: Batch) -> None:
        """A batch failed."""
        self.metrics.record_error_total.add(batch.records)
        self._topics.of(batch.partition.topic.name).failed(batch.records)


def _full_ratio(queues: Mapping[int, BrokerQueue]) -> float:
    """Of the time with requests in flight, the part in which there was no place; the largest of all brokers.

    A mean would hide the one partition, with its broker, that the round trip limits. It is that of brokers and not of
    partitions: one without a place has taken all of its broker's, and where many partitions share these, none of them
    has as many batches in flight as it may have.
    """
    return max((queue.full_s / queue.in_flight_s for queue in queues.values() if queue.in_flight_s), default=0.0)


def _by_broker(traffic: TrafficOfBrokers, queues: Mapping[int, BrokerQueue]) -> dict[str, NodeTotals]:
    totals = {
        "bootstrap" if node_id < 0 else str(node_id): _totals(one, [queues[node_id]] if node_id in queues else [])
        for node_id, one in traffic.by_node.items()
    }
    if traffic.of_others.requests:
        others = [queue for node_id, queue in queues.items() if node_id not in traffic.by_node]
        totals[OTHER] = _totals(traffic.of_others, others)
    return totals


def _totals(one: Traffic, queues: list[BrokerQueue]) -> NodeTotals:
    in_flight_s, full_s = sum(queue.in_flight_s for queue in queues), sum(queue.full_s for queue in queues)
    return NodeTotals(one.requests, one.responses, one.bytes_out, one.bytes_in, in_flight_s, full_s)
