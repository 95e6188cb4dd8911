"""One broker of a fake cluster: its listener, its connections, and where faults take effect.

Each connection is one task that reads a request, lets the handler answer it (`handlers/`) and writes the response,
before it reads the next request. `_serve` does the steps in the order that `Fault` describes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

from aioprod.errors import ErrorCode, UnsupportedVersionError
from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ProduceRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from aioprod.messages.api_versions import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from aioprod.messages.registry import decode_request
from aioprod.testing.fake.authentication import Authenticator
from aioprod.testing.fake.faults import Fault, Seen
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.handlers.produce import has_failed
from aioprod.testing.fake.handlers.table import HANDLERS
from aioprod.testing.fake.state.quota import Quota
from aioprod.testing.listening import close_server, listen
from aioprod.wire.frame import FRAME_SIZE_MAX, RequestHeader, encode_response
from aioprod.wire.schema import AnyRequest, Response

if TYPE_CHECKING:
    from aioprod.testing.fake.cluster import FakeCluster

__all__ = ["FakeBroker"]

_HOST: Final = "127.0.0.1"
_FEATURE: Final = "transaction.version"


class FakeBroker:
    """One broker of a `FakeCluster`.

    Tests may change `versions`, the version range that it supports of each request, and `quota`, by default none.
    With `lists_itself=False` it leaves ApiVersions out of its UNSUPPORTED_VERSION answer, as brokers before 2.4 do.
    """

    def __init__(self, cluster: FakeCluster, node_id: int, port: int = 0) -> None:
        self.node_id = node_id
        self.port = port
        answered: tuple[type[AnyRequest], ...] = (
            ApiVersionsRequest,
            SaslHandshakeRequest,
            SaslAuthenticateRequest,
            *HANDLERS,
        )
        self.versions = {kind: (kind.VERSIONS[0], kind.STABLE_MAX or kind.VERSIONS[1]) for kind in answered}
        self.lists_itself = True
        self.quota: Quota | None = None
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._thawed = asyncio.Event()
        self._thawed.set()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return _HOST, self.port

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return sum(not writer.transport.is_closing() for writer in self._connections.values())

    async def start(self) -> None:
        """Listen, on the same port as the last time, and add the broker to the metadata."""
        context = self._cluster.tls_context()
        self._server = await listen(self._accept, _HOST, self.port, context=context)
        self.port = self._server.sockets[0].getsockname()[1]
        self._cluster.state.broker_started(self.node_id, self.address)

    async def kill(self, *, stay_in_metadata: bool = False) -> None:
        """Stop listening and abort all connections."""
        if self._server is not None:
            server, self._server = self._server, None
            await close_server(server)
        await self.cut()
        await asyncio.sleep(0)
        self.thaw()
        if not stay_in_metadata:
            self._cluster.state.nodes.pop(self.node_id, None)

    async def cut(self) -> None:
        """Abort all connections, and continue to accept new ones."""
        connections = dict(self._connections)
        for task, writer in connections.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for writer in connections.values():
            with suppress(OSError):
                await writer.wait_closed()

    def freeze(self) -> None:
        """Handle no requests, as a stopped process: connections are accepted, and what arrives is kept."""
        self._thawed.clear()
        self._cluster.state.frozen.add(self.node_id)

    def thaw(self) -> None:
        """Resume after `freeze`: handle what arrived meanwhile, also from clients that have disconnected."""
        self._thawed.set()
        self._cluster.state.frozen.discard(self.node_id)

    # --- one connection

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        loop = asyncio.get_running_loop()
        certificate = writer.get_extra_info("peercert")
        authenticator = Authenticator(self._cluster.security, loop.time, time.time, certificate)
        try:
            while await self._serve(reader, writer, authenticator):
                pass
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            # The client disconnected or the broker was killed; asyncio would log these exceptions of the task.
            pass
        except Exception as error:
            self._cluster.errors.append(error)
        finally:
            del self._connections[task]
            writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authenticator: Authenticator
    ) -> bool:
        """Handle one request; False ends the connection."""
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > FRAME_SIZE_MAX:
            # A TLS ClientHello at a plaintext listener reads as such a size.
            return False
        payload = await reader.readexactly(size)
        await self._thawed.wait()
        try:
            header, message = decode_request(payload)
        except UnsupportedVersionError:
            return await self._turn_down(payload, writer)
        if self._cluster.keeps_requests:
            self._cluster.seen.append(Seen(self.node_id, header, message))
        if not authenticator.may_send(message):
            return False
        fault = self._cluster.fault_for(self.node_id, message)
        if not await self._passes(fault, reader, writer):
            return False
        answer, version = await self._answer(header, message, fault, authenticator)
        await self._thawed.wait()
        if fault.drop is not None or answer is None:
            return False
        if fault.silent:
            await reader.read()
            return False
        throttle_ms = self._throttle_ms(message, size)
        if isinstance(message, ProduceRequest) and message.acks == 0:
            if has_failed(answer):
                return False
        else:
            sent_ms = max(fault.throttle_ms, throttle_ms)
            answer = replace(answer, throttle_time_ms=sent_ms) if sent_ms else answer
            writer.write(_frame(fault, answer, version, header.correlation_id))
            await writer.drain()
        if throttle_ms:
            # Since KIP-219 the client has to wait; the broker mutes the connection all the same.
            await asyncio.sleep(throttle_ms / 1000)
        return fault.cut_after_bytes is None and not (
            isinstance(message, SaslAuthenticateRequest) and answer.error_code
        )

    async def _turn_down(self, payload: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer an ApiVersions request newer than ours by what we know (KIP-511); others end the connection.

        Raises UnsupportedVersionError for these, so that the user of the cluster learns what a client wants of it.
        """
        key, version = (int.from_bytes(payload[at : at + 2], "big") for at in (0, 2))
        if key != ApiVersionsRequest.API_KEY:
            raise _unknown(key, version)
        answer = self._api_versions(ErrorCode.UNSUPPORTED_VERSION)
        writer.write(encode_response(answer, 0, int.from_bytes(payload[4:8], "big", signed=True)))
        await writer.drain()
        return True

    async def _passes(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Apply the faults that come before the handler; False if the request is not to be handled."""
        if fault.half_open:
            await reader.read()
            return False
        if fault.drop == "lurking":
            writer.transport.abort()
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.hold:
            await fault.released.wait()
        await self._thawed.wait()
        return fault.drop != "before"

    def _throttle_ms(self, message: AnyRequest, size: int) -> int:
        if self.quota is None or not isinstance(message, ProduceRequest):
            return 0
        return round(self.quota.charge(size, self._cluster.state.timers.now()) * 1000)

    async def _answer(
        self, header: RequestHeader, message: AnyRequest, fault: Fault, authenticator: Authenticator
    ) -> tuple[Any, int]:
        """The response and its version; None for a request version that this broker does not support."""
        first, last = self.versions.get(type(message), (0, -1))
        is_spoken = first <= header.version <= last
        if isinstance(message, ApiVersionsRequest):
            error = fault.error
            if not is_spoken:
                error = ErrorCode.UNSUPPORTED_VERSION
            elif error == ErrorCode.NONE and authenticator.is_over:
                error = self._identity_error(message)
            return self._api_versions(error), header.version if is_spoken else 0
        if not is_spoken:
            if type(message) not in HANDLERS:
                raise _unknown(header.api_key, header.version)
            return None, 0
        if isinstance(message, SaslHandshakeRequest):
            return authenticator.handshake(message), header.version
        if isinstance(message, SaslAuthenticateRequest):
            return authenticator.authenticate(message), header.version
        security = self._cluster.security
        call = Call(
            self._cluster.state,
            self.node_id,
            header.version,
            fault,
            header.client_id or "",
            authenticator.principal,
            security,
        )
        answer = HANDLERS[type(message)](call, message)
        return await answer if isawaitable(answer) else answer, header.version

    def _identity_error(self, message: ApiVersionsRequest) -> ErrorCode:
        """What a client gets that expects another broker, or one of another cluster (KIP-1242)."""
        given = (message.cluster_id, message.node_id)
        if given == (None, -1):
            return ErrorCode.NONE
        if None in given or -1 in given:
            return ErrorCode.INVALID_REQUEST
        is_meant = given == (self._cluster.state.cluster_id, self.node_id)
        return ErrorCode.NONE if is_meant else ErrorCode.REBOOTSTRAP_REQUIRED

    def _api_versions(self, error: ErrorCode) -> ApiVersionsResponse:
        rows = [
            ApiVersion(api_key=kind.API_KEY, min_version=first, max_version=last)
            for kind, (first, last) in self.versions.items()
            if self.lists_itself or kind is not ApiVersionsRequest
        ]
        level, epoch = self._cluster.state.transactions.version, self._cluster.state.features_epoch
        finalized = FinalizedFeatureKey(name=_FEATURE, max_version_level=level, min_version_level=level)
        return ApiVersionsResponse(
            error_code=error,
            api_keys=tuple(rows),
            supported_features=(SupportedFeatureKey(name=_FEATURE, min_version=0, max_version=2),) if level else (),
            finalized_features_epoch=epoch,
            finalized_features=(finalized,) if level else (),
        )


def _unknown(api_key: int, version: int) -> UnsupportedVersionError:
    return UnsupportedVersionError(f"key {api_key}, version {version}, is not known")


def _frame(fault: Fault, answer: Response, version: int, correlation_id: int) -> bytes:
    """The bytes of the response, with the faults that change them."""
    if fault.edit is not None:
        answer = fault.edit(answer)
    frame = encode_response(answer, version, correlation_id) if fault.reply is None else fault.reply
    return frame[: fault.cut_after_bytes]
