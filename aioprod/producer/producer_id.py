"""Getting a producer id and epoch from the brokers, for a producer without transactions (KIP-98)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aioprod._authorization_errors import IDEMPOTENT_WRITE, authorization_error
from aioprod._logger import Logger
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    BrokerError,
    ErrorCode,
    MetadataTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import InitProducerIdRequest
from aioprod.messages.init_producer_id import check_identity
from aioprod.net.client import Client
from aioprod.net.slow_calls import warn_if_start_is_slow
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.lifecycle import set_producer_id

__all__ = ["ProducerIdKeeper"]

_logger = Logger("aioprod.producer")

_OFF: Final = "Set enable.idempotence=false to do without, as Confluent's Freight clusters need."
_ANY_TOPIC: Final = "WRITE on any topic, which is enough for brokers from 2.8 on"
_TIMEOUT_WITHOUT_TRANSACTIONS_MS: Final = 2**31 - 1
"""What the request says where there is no transaction; brokers don't look at it."""


class ProducerIdKeeper:
    """Requests the producer id at the start, and another one when its epochs are exhausted."""

    def __init__(
        self,
        client: Client,
        accumulator: Accumulator,
        *,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._loop = loop
        self._on_failure = on_failure
        """Takes an unexpected exception of a background task."""
        self._renewal: asyncio.Task[None] | None = None
        """Requests another producer id; None before the first time."""
        self._last: AioprodError | None = None
        self._closed = False

    async def start(self, timeout_s: float) -> None:
        """Get the first producer id.

        Raises MetadataTimeoutError when no broker has given one within `timeout_s`, AuthorizationError when this client
        may not have one, UnsupportedVersionError when the brokers know of no such thing, else BrokerError.
        """
        scope = asyncio.timeout(timeout_s)
        try:
            with warn_if_start_is_slow(self._loop, self._why_none, timeout_s):
                async with scope:
                    await self._obtain(self._failed, may_pass)
        except TimeoutError as error:
            if not scope.expired():
                raise
            reason = f" Last: {self._last.message}" if self._last else ""
            text = f"No broker gave the producer an id within {timeout_s:g} s.{reason} Now: {self._client.describe()}."
            raise MetadataTimeoutError(text, hint=self._client.advice() or _OFF) from (self._last or error)

    def _failed(self, error: AioprodError) -> None:
        self._last = error

    def _why_none(self) -> str:
        last = self._client.describe() if self._last is None else self._last.message.rstrip(".")
        return f"No broker has given the producer an id yet: {last}"

    async def _obtain(
        self, on_error: Callable[[AioprodError], object], may_pass: Callable[[AioprodError], bool]
    ) -> None:
        """Retry until a broker gives an id; `on_error` is called with each failure that may pass."""
        attempts = 0
        while True:
            try:
                await self._request()
                return
            except Exception as error:
                failure = self._client.unforeseen.failure("The request for a producer id", error)
                if not may_pass(failure):
                    raise
                on_error(failure)
            attempts += 1
            await asyncio.sleep(self._client.backoff_s(attempts - 1))

    async def _request(self) -> None:
        message = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_TIMEOUT_WITHOUT_TRANSACTIONS_MS, producer_id=-1
        )
        try:
            answer = await self._client.request(message)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"The brokers give no producer ids: {error.message}", hint=_OFF) from error
        code = ErrorCode.of(answer.error_code)
        if code != ErrorCode.NONE:
            said = f"A broker answered {ErrorCode.name_of(code)} to the request for a producer id."
            if denied := authorization_error(said, code, [IDEMPOTENT_WRITE], instead=_ANY_TOPIC):
                denied.hint = f"{denied.hint} {_OFF}"
                raise denied
            raise BrokerError(said, code=code, hint=_OFF)
        check_identity(answer.producer_id, answer.producer_epoch)
        set_producer_id(self._accumulator, answer.producer_id, answer.producer_epoch, self._client.now())

    def renew(self) -> None:
        """Request another id, as the epochs are exhausted; partitions wait for it until their records expire."""
        if self._closed:
            return
        self._renewal = self._loop.create_task(
            self._obtain(self._log_retry, lambda error: not isinstance(error, UsageError)), name="aioprod producer id"
        )
        self._renewal.add_done_callback(self._renewed)

    def _log_retry(self, error: AioprodError) -> None:
        _logger.warning("No new producer id yet: %s", error.message)

    def _renewed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def close(self) -> None:
        """Request no other id, even if batches in flight leave a gap when the connections close."""
        self._closed = True
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])


def may_pass(error: AioprodError) -> bool:
    """Whether a retry, maybe at another broker, may have another answer."""
    if isinstance(error, BrokerError):
        return isinstance(error.code, ErrorCode) and error.code.retriable
    return isinstance(error, (BrokerConnectionError, ProtocolError))
