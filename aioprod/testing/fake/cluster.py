"""`FakeCluster`: Kafka brokers inside a test."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from aioprod.messages.registry import AnyRequest
from aioprod.testing.fake.broker import FakeBroker
from aioprod.testing.fake.faults import Fault, Seen
from aioprod.testing.fake.state import FakeState
from aioprod.testing.fake.topics import FakeTopic, Topics

__all__ = ["FakeCluster"]


class FakeCluster:
    """Brokers with node ids from 1 on, on 127.0.0.1 in this event loop; an async context manager.

        async with FakeCluster(brokers=3) as cluster:
            topic = cluster.create_topic("orders", partitions=3)
            cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
            ...                                             # a client that connects to cluster.bootstrap
            assert [record.value for record in topic.records()] == [b"a", b"b"]

    Nothing but the loop tells the time here, and all that is random comes from `seed`. A broker handles the requests of
    one connection one after the other, as Kafka does: one that is held or delayed holds back those behind it.

    `state` holds topics and settings, `seen` every request in the order of arrival, `errors` what no broker does: there
    must be none at the end.
    """

    def __init__(self, brokers: int = 1, *, seed: int = 0) -> None:
        self.state = FakeState(seed)
        self.brokers = {node_id: FakeBroker(self, node_id) for node_id in range(1, brokers + 1)}
        self.seen: list[Seen] = []
        self.errors: list[Exception] = []
        self._faults: list[Fault] = []

    async def __aenter__(self) -> Self:
        for broker in self.brokers.values():
            await broker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            await broker.kill()
        assert not self.errors, self.errors

    def __getitem__(self, node_id: int) -> FakeBroker:
        return self.brokers[node_id]

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each broker."""
        return tuple(broker.address for broker in self.brokers.values())

    @property
    def bootstrap(self) -> str:
        """The same as `bootstrap.servers` wants it."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    # -- topics ------------------------------------------------------------------------------------------------------

    @property
    def topics(self) -> Topics:
        """All topics by name."""
        return self.state.topics

    def create_topic(self, name: str, partitions: int = 1, **config: object) -> FakeTopic:
        """Create a topic whose leaders are the brokers in turn. `config`: its settings, `max_message_bytes=2000`."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        return self.state.create_topic(name, partitions, settings)

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def fault(self, kind: type[AnyRequest], **what: Any) -> Fault:
        """Order a `Fault`; earlier ones come first."""
        fault = Fault(kind, **what)
        self._faults.append(fault)
        return fault

    def fault_for(self, node_id: int, message: AnyRequest) -> Fault:
        """The fault that this request gets; one without any fault if none is left."""
        return next((fault for fault in self._faults if fault.takes(node_id, message)), Fault(type(message)))

    def seen_of(self, kind: type[AnyRequest], node: int | None = None) -> list[Any]:
        """The requests of a kind that arrived, at one node or at all."""
        return [one.message for one in self.seen if isinstance(one.message, kind) and node in (None, one.node)]
