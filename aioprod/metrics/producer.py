"""The metrics of a producer, under the names that Java's producer gives them, in snake_case.

Those that Java keeps for each topic (`producer-topic-metrics`) and each broker (`producer-node-metrics`) begin with
`topic_` and `node_`: they are families only, as a snapshot has no labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from aioprod.metrics.families import BYTES, MILLISECONDS, NANOSECONDS, NUMBER, OTHER, SECONDS, Family, Point, Unit
from aioprod.metrics.instruments import Histogram
from aioprod.metrics.registry import Metrics
from aioprod.metrics.topics import TopicMeter, TopicMeters

__all__ = ["NodeTotals", "ProducerMetrics"]


class NodeTotals(NamedTuple):
    """What is counted for one broker, in the order of the families."""

    requests: int
    responses: int
    bytes_out: int
    bytes_in: int
    in_flight_s: float
    in_flight_full_s: float


_NODES_MAX: Final = 1000
"""How many brokers have a count of their own: their ids come from a peer."""

_PERCENTILES: Final = ("avg", "max", "p50", "p99")
_TIMES: Final[dict[str, Any]] = {"unit": MILLISECONDS, "low": -2, "high": 17}
"""Buckets from a quarter of a millisecond to 131 s, which is more than `delivery.timeout.ms` usually is."""
_SIZES: Final[dict[str, Any]] = {"unit": BYTES, "low": 8, "high": 24}

_OF_TOPICS: Final[tuple[tuple[str, str, Unit, Callable[[TopicMeter], float]], ...]] = (
    (
        "topic_record_send_total",
        "Records put into produce requests, those of a retried batch each time.",
        NUMBER,
        lambda meter: meter.records,
    ),
    ("topic_bytes_total", "Bytes of batches in produce requests, after compression.", BYTES, lambda meter: meter.bytes),
    (
        "topic_uncompressed_bytes_total",
        "Bytes of the same batches before compression: the ratio of the two is the compression rate.",
        BYTES,
        lambda meter: meter.bytes_uncompressed,
    ),
    ("topic_record_retry_total", "Records of batches that were retried.", NUMBER, lambda meter: meter.retries),
    ("topic_record_error_total", "Accepted records that ended in an error.", NUMBER, lambda meter: meter.errors),
)
"""Name, meaning, unit and value of what is counted for each topic."""

_OF_NODES: Final = (
    ("node_request_total", "Requests of all kinds to the broker.", NUMBER),
    ("node_response_total", "Responses from the broker.", NUMBER),
    ("node_outgoing_bytes_total", "Bytes of requests to the broker, before TLS.", BYTES),
    ("node_incoming_bytes_total", "Bytes received from the broker, after TLS.", BYTES),
    ("node_in_flight_seconds_total", "Time in which produce requests to the broker were in flight.", SECONDS),
    (
        "node_in_flight_full_seconds_total",
        "The part of it in which all places in flight were taken while another batch waited, see in_flight_full_ratio.",
        SECONDS,
    ),
)


class ProducerMetrics(Metrics):
    """All metrics of a producer. In snapshots times are in milliseconds and sizes in bytes, unless a name says so.

    `topics_max` is how many topics have a count of their own; the rest share the label `(other)`.
    """

    def __init__(self, topics_max: int = 100) -> None:
        super().__init__()
        self.topics = TopicMeters(topics_max)
        self._read_traffic: Callable[[], Mapping[str, NodeTotals]] = dict
        self._latencies: dict[int | None, Histogram] = {}
        self._define_records()
        self._define_requests()
        self._define_connections()
        self._define_waits()

    def _define_records(self) -> None:
        self.total(
            "record_send_total", "Records put into produce requests, those of a retried batch each time."
        ).observe(self.topics.records)
        self.total("byte_total", "Bytes of batches in produce requests, after compression.", BYTES).observe(
            self.topics.bytes
        )
        self.bytes_sent_within_zone_total = self.gauge(
            "bytes_sent_within_zone_total",
            "Bytes of batches in produce requests to brokers in `client.rack`; absent without that.",
            lambda: None,
            BYTES,
            "counter",
        )
        self.bytes_sent_across_zones_total = self.gauge(
            "bytes_sent_across_zones_total",
            "Bytes of batches in produce requests to other brokers; absent without `client.rack`.",
            lambda: None,
            BYTES,
            "counter",
        )
        self.record_retry_total = self.counter("record_retry_total", "Records of batches that were retried.")
        self.record_error_total = self.counter("record_error_total", "Accepted records that ended in an error.")
        self.batch_split_total = self.counter(
            "batch_split_total", "Batches split because a broker found them too large."
        )
        self.batch_size = self.histogram("batch_size", "Bytes of a batch as sent, after compression.", **_SIZES)
        self.gauge(
            "record_size_avg",
            "Mean size of the records in requests, before compression.",
            self.topics.record_size,
            BYTES,
        )
        self.records_per_request = self.histogram("records_per_request", "Records in a produce request.", ("avg",))
        self.compression_rate = self.histogram(
            "compression_rate",
            "Size of a batch after compression, as a part of its size before.",
            ("avg",),
            low=-5,
            high=1,
        )
        self.record_queue_time = self.histogram(
            "record_queue_time", "Time from the making of a batch to its first request.", _PERCENTILES, **_TIMES
        )
        self.record_delivery_time = self.histogram(
            "record_delivery_time",
            "Time from the making of a batch, when its first record was sent, to its acknowledgement.",
            _PERCENTILES,
            **_TIMES,
        )

    def _define_requests(self) -> None:
        self.request_latency = self.histogram(
            "request_latency", "Time from a produce request to its response.", _PERCENTILES, **_TIMES
        )
        self.produce_throttle_time = self.histogram(
            "produce_throttle_time", "Time for which a broker throttled the producer.", **_TIMES
        )
        self.requests_in_flight = self.gauge("requests_in_flight", "Requests whose response has not come yet.")
        self.in_flight_full_ratio = self.gauge(
            "in_flight_full_ratio",
            "How far the round trip limits this producer: of the time with requests in flight, the part in which all "
            "places in flight were taken while another batch waited. That of the broker with the largest.",
        )
        self.loop_hold = self.histogram(
            "loop_hold",
            "Time for which the producer kept the event loop to itself in one go.",
            _PERCENTILES,
            unit=MILLISECONDS,
            low=-6,
            high=12,
        )
        self.loop_gap_max = self.gauge(
            "loop_gap_max",
            "Longest time for which the producer kept the event loop to itself in one go: to fill requests, read "
            "answers, complete futures and run callbacks, or run timers.",
            unit=MILLISECONDS,
        )
        self.epoch_bumps = self.total(
            "epoch_bumps", "Epochs that partitions have begun because one of their batches was not stored."
        )
        self.resolved_stored_total = self.counter(
            "resolved_stored_total", "Records whose answer was lost and that were found (resolve.unknown.outcomes)."
        )
        self.resolved_absent_total = self.counter(
            "resolved_absent_total", "Records whose answer was lost and that are in no log (resolve.unknown.outcomes)."
        )
        self.unresolved_total = self.counter(
            "unresolved_total", "Records of which it stayed unknown whether they are stored (resolve.unknown.outcomes)."
        )
        self.interceptor_failures = self.total("interceptor_failures", "Calls of interceptors that failed.")

    def _define_connections(self) -> None:
        self.connection_count = self.gauge("connection_count", "Connections that are up.")
        self.connection_creation_total = self.counter("connection_creation_total", "Connections made.")
        self.connection_close_total = self.counter("connection_close_total", "Connections closed, by either side.")
        self.successful_authentication_total = self.total(
            "successful_authentication_total", "Connections that were set up with TLS or a log-in."
        )
        self.failed_authentication_total = self.total(
            "failed_authentication_total", "TLS handshakes and log-ins that failed, log-ins without credentials too."
        )
        self.successful_reauthentication_total = self.total(
            "successful_reauthentication_total", "Log-ins that were renewed on their connection."
        )
        self.failed_reauthentication_total = self.total(
            "failed_reauthentication_total", "Renewals of log-ins that a broker rejected."
        )
        self.reauthentication_latency_avg = self.gauge(
            "reauthentication_latency_avg",
            "Time that the renewal of a log-in took, on average.",
            unit=MILLISECONDS,
        )
        self.reauthentication_latency_max = self.gauge(
            "reauthentication_latency_max",
            "Time that the renewal of a log-in took at most.",
            unit=MILLISECONDS,
        )
        self.credentials_expire_s = self.gauge(
            "credentials_expire_s",
            "Time until this client's certificate or token ends, whatever is first; absent without both.",
            lambda: None,
            unit=SECONDS,
        )
        self.metadata_age_s = self.gauge("metadata_age_s", "Time since the last metadata of the cluster.", unit=SECONDS)

    def _define_waits(self) -> None:
        self.buffer_total_bytes = self.gauge(
            "buffer_total_bytes", "Bytes that waiting records may use: buffer.memory.", unit=BYTES
        )
        self.buffer_available_bytes = self.gauge(
            "buffer_available_bytes", "Bytes of it that are not in use.", unit=BYTES
        )
        self.waiting_senders = self.gauge("waiting_senders", "Calls that wait for room in the buffer.")
        self.bufferpool_wait_time_ns_total = self.counter(
            "bufferpool_wait_time_ns_total", "Time that calls have waited for room in the buffer.", NANOSECONDS
        )
        self.flush_time_ns_total = self.counter(
            "flush_time_ns_total", "Time that calls of flush() have taken.", NANOSECONDS
        )

    def latency_of(self, node_id: int) -> Histogram:
        """The latencies of produce requests to one broker; those of too many share one histogram."""
        latency = self._latencies.get(node_id)
        if latency is None:
            key = node_id if len(self._latencies) < _NODES_MAX else None
            latency = self._latencies.setdefault(key, _node_latency())
        return latency

    def observe_traffic(self, read: Callable[[], Mapping[str, NodeTotals]]) -> None:
        """Read the totals of each broker from the part that counts them, from now on."""
        self._read_traffic = read

    def families(self) -> list[Family]:
        """All metrics as monitoring systems collect them, those of topics and brokers last."""
        return [*super().families(), *self._of_topics(), self._of_latencies(), *self._of_traffic()]

    def _of_topics(self) -> Iterator[Family]:
        meters = dict(self.topics.by_topic)
        if self.topics.others.records or self.topics.others.errors:
            meters[OTHER] = self.topics.others
        for name, doc, unit, read in _OF_TOPICS:
            points = tuple(Point({"topic": topic}, read(meter)) for topic, meter in meters.items())
            yield Family(name, "counter", unit, doc, ("topic",), points)

    def _of_latencies(self) -> Family:
        points = tuple(
            Point({"node_id": OTHER if node_id is None else str(node_id)}, latency.buckets())
            for node_id, latency in self._latencies.items()
        )
        family = _node_latency().family()
        return family._replace(labels=("node_id",), points=points)

    def _of_traffic(self) -> Iterator[Family]:
        traffic = self._read_traffic()
        for at, (name, doc, unit) in enumerate(_OF_NODES):
            points = tuple(Point({"node_id": node_id}, totals[at]) for node_id, totals in traffic.items())
            yield Family(name, "counter", unit, doc, ("node_id",), points)


def _node_latency() -> Histogram:
    return Histogram("node_request_latency", "Time from a produce request to the broker's response.", **_TIMES)
