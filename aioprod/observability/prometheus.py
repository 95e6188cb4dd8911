"""Metrics for Prometheus: `REGISTRY.register(Collector(producer))`, with the extra `aioprod[prometheus]`.

Names, kinds and labels are in docs/metrics.md, each with the prefix `aioprod_`; times are in seconds, sizes in bytes.
https://prometheus.io/docs/instrumenting/writing_clientlibs/
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import accumulate, count
from typing import TYPE_CHECKING, Final, Protocol
from weakref import ref

from aioprod.errors import UsageError
from aioprod.metrics.families import Buckets, Family

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector as Registered
except ImportError as missing:
    raise UsageError(
        "aioprod.observability.prometheus needs prometheus_client, which is not installed.",
        hint="pip install 'aioprod[prometheus]'",
    ) from missing

if TYPE_CHECKING:
    from typing import TypeAlias

    from prometheus_client.core import Metric

    Sampled: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

__all__ = ["Collector", "Observed"]

_PATIENCE_S: Final = 5.0
"""How long a scrape waits for an event loop that is busy; Prometheus itself waits for 10 s."""
_PREFIX: Final = "aioprod_"

_logger = logging.getLogger("aioprod")


class Observed(Protocol):
    """What a collector reads: a producer or a member."""

    @property
    def client_id(self) -> str:
        """The client's id at the brokers."""

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the client lives in, None before it is started."""

    def metric_families(self) -> list[Family]:
        """All metrics; to be called in the thread of the loop."""


class Collector(Registered):
    """All metrics of some producers and members, each with its `client_id` as label; one per registry.

    Clients of the same `client_id` get a number: `shop`, `shop-2`. The collector does not keep clients
    alive: their metrics end with them. A scrape may come from any thread; it reads in the thread of each client's
    loop, and leaves out, with a warning, a client whose loop is blocked for five seconds.
    """

    def __init__(self, *clients: Observed) -> None:
        self._clients: dict[str, ref[Observed]] = {}
        for client in clients:
            self.add(client)

    def add(self, client: Observed, *, client_id: str | None = None) -> str:
        """Collect from one more client; returns its label, which is made of `client_id`, by default the client's."""
        self._clients = {label: known for label, known in self._clients.items() if known() is not None}
        for label, known in self._clients.items():
            if known() is client:
                return label
        given = client_id or client.client_id
        label = next(
            label
            for number in count(1)
            if (label := given if number == 1 else f"{given}-{number}") not in self._clients
        )
        self._clients[label] = ref(client)
        return label

    def describe(self) -> Iterable[Metric]:
        """The metric that all collectors have: a registry accepts no second one for its name."""
        return [_living(0)]

    def collect(self) -> Iterator[Metric]:
        """All metrics of the clients that live, each name once."""
        sampled: dict[str, Sampled] = {}
        for label, known in list(self._clients.items()):
            client = known()
            if client is None:
                del self._clients[label]
                continue
            for family in _families(client, label):
                if family.name not in sampled:
                    sampled[family.name] = _sampled(family)
                _add(sampled[family.name], label, family)
        yield _living(len(self._clients))
        yield from sampled.values()


def _living(clients: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}clients", "Producers and members whose metrics are collected.", clients)


def _families(client: Observed, label: str) -> list[Family]:
    """The metrics of a client, read in the thread of its loop, while that runs elsewhere."""
    loop = client.event_loop
    if loop is None or not loop.is_running() or _runs_here(loop):
        return client.metric_families()
    future: Future[list[Family]] = Future()
    try:
        loop.call_soon_threadsafe(_read, client.metric_families, future)
    except RuntimeError:  # The loop was closed meanwhile.
        return client.metric_families()
    try:
        return future.result(_PATIENCE_S)
    except TimeoutError:
        future.cancel()
        _logger.warning(
            "The metrics of client %r are missing in a scrape: its event loop was blocked for %g s", label, _PATIENCE_S
        )
        return []


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _read(read: Callable[[], list[Family]], future: Future[list[Family]]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(read())
        except Exception as error:
            future.set_exception(error)


def _sampled(family: Family) -> Sampled:
    name, labels = f"{_PREFIX}{family.name}", ["client_id", *family.labels]
    if family.kind == "counter":
        return CounterMetricFamily(name, family.doc, labels=labels)
    if family.kind == "gauge":
        return GaugeMetricFamily(name, family.doc, labels=labels)
    return HistogramMetricFamily(name, family.doc, labels=labels)


def _add(sampled: Sampled, label: str, family: Family) -> None:
    for point in family.points:
        labels = [label, *(point.labels[name] for name in family.labels)]
        if isinstance(sampled, HistogramMetricFamily):
            assert isinstance(point.value, Buckets)
            sampled.add_metric(labels, *_cumulative(point.value))
        else:
            assert not isinstance(point.value, Buckets)
            sampled.add_metric(labels, point.value)


def _cumulative(buckets: Buckets) -> tuple[list[tuple[str, float]], float]:
    """Buckets as Prometheus has them, each with the values of all before it, and the sum."""
    bounds = [*(f"{bound:g}" for bound in buckets.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(buckets.counts)), strict=True)), buckets.total
