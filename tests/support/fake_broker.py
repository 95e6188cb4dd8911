"""Kafka brokers for tests: real sockets on 127.0.0.1 in this event loop, our own codec, faults on order.

    async with FakeBrokers(3) as brokers:
        topic = brokers.create_topic("orders", partitions=3)
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
        ...                                                 # a client that connects to brokers.addresses
        assert [record.value for record in topic.records()] == [b"a", b"b"]

A broker handles the requests of one connection one after the other, as Kafka does: one that is held or delayed holds
back those behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal, Self

from aioprod.errors import ErrorCode, UnsupportedVersionError
from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from aioprod.messages.api_versions import ApiVersion
from aioprod.messages.registry import AnyRequest, decode_request
from aioprod.types import TopicPartition
from aioprod.wire.frame import RequestHeader, encode_response
from aioprod.wire.schema import Response
from tests.support.fake_state import FakeState, FakeTopic

HOST = "127.0.0.1"
ACCEPT_TURNS = 5
ANSWERED: tuple[type[AnyRequest], ...] = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)

Versions = Mapping[type[AnyRequest], tuple[int, int]]


@dataclass
class Fault:
    """What happens to the next `times` requests of a kind (None: to all) on one node (None: on any).

    In this order: `delay_s` passes; a hold waits for `release`; `drop="before"` cuts the connection; the request is
    carried out, where `error` is answered for `partition` (None: for all; a topic's metadata has partition -1) and
    batches are stored only if `apply`; `drop="after"` cuts; `silent` answers nothing, ever again on this connection;
    `throttle_ms` goes into the answer; `edit` changes it; `reply` sends other bytes in its place.
    """

    kind: type[AnyRequest]
    times: int | None = 1
    node: int | None = None
    partition: TopicPartition | None = None
    error: ErrorCode = ErrorCode.NONE
    apply: bool = False
    delay_s: float = 0.0
    hold: bool = False
    drop: Literal["before", "after"] | None = None
    silent: bool = False
    reply: bytes | None = None
    edit: Callable[[Any], Response] | None = None
    throttle_ms: int = 0
    hits: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let held requests go on."""
        self.released.set()

    def takes(self, node_id: int, request: AnyRequest) -> bool:
        """Whether this request is one of those meant; it counts then."""
        if not isinstance(request, self.kind) or self.node not in (None, node_id) or self.hits == self.times:
            return False
        self.hits += 1
        self.reached.set()
        return True

    def error_for(self, tp: TopicPartition) -> ErrorCode:
        """The error to answer for a partition."""
        return self.error if self.partition in (None, tp) else ErrorCode.NONE


@dataclass
class Seen:
    """A request that arrived."""

    node: int
    header: RequestHeader
    message: Any


class FakeBroker:
    """One broker of a `FakeBrokers`.

    `versions` is what it speaks, for a test to change. With `lists_itself=False` it does not list ApiVersions when it
    refuses a version of that request, as brokers before 2.4.
    """

    def __init__(self, cluster: FakeBrokers, node_id: int) -> None:
        self.node_id = node_id
        self.port = 0
        self.versions: dict[type[AnyRequest], tuple[int, int]] = {
            kind: (kind.VERSIONS[0], kind.STABLE_MAX or kind.VERSIONS[1]) for kind in ANSWERED
        }
        self.lists_itself = True
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return HOST, self.port

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self) -> None:
        """Listen, on the same port as before if it ran before, and be in the metadata."""
        self._server = await asyncio.start_server(self._accept, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._cluster.state.nodes[self.node_id] = self.address

    async def kill(self, *, stay_in_metadata: bool = False) -> None:
        """Cut all connections and refuse new ones."""
        if self._server is not None:
            # asyncio leaks a connection whose server closes between its accept and its transport.
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
            self._server.close()
            self._server = None
        await self.cut()
        await asyncio.sleep(0)
        if not stay_in_metadata:
            self._cluster.state.nodes.pop(self.node_id, None)

    async def cut(self) -> None:
        """Cut all connections, and take new ones."""
        connections = dict(self._connections)
        for task, writer in connections.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for writer in connections.values():
            with suppress(OSError):
                await writer.wait_closed()

    # -- one connection ----------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            while await self._serve(reader, writer):
                pass
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            # The client left, or a test ended this: asyncio would report a task that ends with either.
            pass
        except Exception as error:
            self._cluster.errors.append(error)
        finally:
            del self._connections[task]
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handle one request; False ends the connection."""
        size = int.from_bytes(await reader.readexactly(4), "big")
        payload = await reader.readexactly(size)
        try:
            header, message = decode_request(payload)
        except UnsupportedVersionError:
            return False
        self._cluster.seen.append(Seen(self.node_id, header, message))
        fault = self._cluster.fault_for(self.node_id, message)
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.hold:
            await fault.released.wait()
        if fault.drop == "before":
            return False
        answer, version = self._answer(header, message, fault)
        if fault.drop == "after" or answer is None:
            return False
        if fault.silent:
            await reader.read()
            return False
        if isinstance(message, ProduceRequest) and message.acks == 0:
            return True
        if fault.edit is not None:
            answer = fault.edit(answer)
        writer.write(encode_response(answer, version, header.correlation_id) if fault.reply is None else fault.reply)
        await writer.drain()
        return True

    def _answer(self, header: RequestHeader, message: AnyRequest, fault: Fault) -> tuple[Response | None, int]:
        first, last = self.versions.get(type(message), (0, -1))
        if isinstance(message, ApiVersionsRequest):
            if not first <= header.version <= last:
                return self._api_versions(ErrorCode.UNSUPPORTED_VERSION, fault), 0
            return self._api_versions(fault.error, fault), header.version
        if not first <= header.version <= last:
            return None, 0
        answer = self._cluster.state.answer(self.node_id, header.version, message, fault.error_for, apply=fault.apply)
        return replace(answer, throttle_time_ms=fault.throttle_ms), header.version

    def _api_versions(self, error: ErrorCode, fault: Fault) -> ApiVersionsResponse:
        rows = [
            ApiVersion(api_key=kind.API_KEY, min_version=first, max_version=last)
            for kind, (first, last) in self.versions.items()
            if self.lists_itself or kind is not ApiVersionsRequest
        ]
        return ApiVersionsResponse(error_code=error, api_keys=tuple(rows), throttle_time_ms=fault.throttle_ms)


class FakeBrokers:
    """A cluster of fake brokers with node ids from 1 on; an async context manager.

    `state` holds topics and settings, `seen` every request in the order of arrival, `errors` what no broker does.
    """

    def __init__(self, count: int = 1) -> None:
        self.state = FakeState()
        self.brokers = {node_id: FakeBroker(self, node_id) for node_id in range(1, count + 1)}
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

    def create_topic(self, name: str, partitions: int = 1) -> FakeTopic:
        """Create a topic whose leaders are the brokers in turn."""
        return self.state.create_topic(name, partitions)

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
