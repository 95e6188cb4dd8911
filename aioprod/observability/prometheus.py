"""Metrics for Prometheus: `REGISTRY.register(Collector(producer))`, with the extra `aioprod[prometheus]`.

Names, kinds and labels are in docs/metrics.md, each with the prefix `aioprod_`; times are in seconds, sizes in bytes.
https://prometheus.io/docs/instrumenting/writing_clientlibs/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, count
from typing import TYPE_CHECKING, Final
from weakref import ref

from aioprod.errors import UsageError
from aioprod.metrics.families import Buckets, Family
from aioprod.observability.reading import Observed, read_families

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

__all__ = ["Collector"]

_PREFIX: Final = "aioprod_"


class Collector(Registered):
    """All metrics of some clients, each with its `client_id` as label; one per registry.

    These are producers, members, relays and spooled producers.

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
            for family in read_families(client, label):
                if family.name not in sampled:
                    sampled[family.name] = _sampled(family)
                _add(sampled[family.name], label, family)
        yield _living(len(self._clients))
        yield from sampled.values()


def _living(clients: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}clients", "Producers, members and relays whose metrics are collected.", clients)


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
