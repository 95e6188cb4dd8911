"""Requests to the coordinator of a group or a transactional id, wherever it is.

`Coordinator.request` finds the broker (FindCoordinator, by any broker), sends the request, and on NOT_COORDINATOR, a
lost connection or a lost response finds it again and retries until the deadline. A coordinator that is silent for two
seconds may be frozen: another broker is queried, and if the coordinator has moved, the request moves with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar

from aioprod._authorization_errors import Right, authorization_error
from aioprod.calls.broker_errors import prefer_specific_error
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    BrokerError,
    ErrorCode,
    Operation,
    ProtocolError,
    RequestTimedOutError,
    ResourceType,
)
from aioprod.messages import FindCoordinatorRequest, FindCoordinatorResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.net.client import Client
from aioprod.wire.schema import Request, Response

__all__ = ["COORDINATOR_RETRIABLE", "Coordinator", "KeyType", "error_code_of"]

ResponseT = TypeVar("ResponseT", bound=Response)
KeyType: TypeAlias = Literal["group", "transaction"]

_KEY_TYPES: Final[dict[KeyType, int]] = {"group": 0, "transaction": 1}
_SUBJECTS: Final[dict[KeyType, str]] = {"group": "group", "transaction": "transactional id"}
_RIGHTS: Final[dict[KeyType, tuple[ResourceType, Operation]]] = {
    "group": ("group", "READ"),
    "transaction": ("transactional_id", "WRITE"),
}
"""The resource type of a key, and the operation that clients mostly need besides DESCRIBE."""
_FIRST_WITH_MANY_KEYS: Final = 4

_MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
COORDINATOR_RETRIABLE: Final = _MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""The error codes that `Coordinator.request` retries by itself."""

_SILENT_S: Final = 2.0
"""How long the coordinator may be silent before another broker is queried: a frozen broker reports nothing, and
`request.timeout.ms` is long."""


def error_code_of(response: Response) -> int:
    """The top-level error code of a response."""
    code: int = getattr(response, "error_code", 0)
    return code


class Coordinator:
    """The coordinator of one `key`, a group id or a transactional id; several requests may be in flight at once.

    `then` is the right to the key that the requests need besides DESCRIBE, where that is not READ or WRITE.
    """

    def __init__(self, client: Client, key_type: KeyType, key: str, *, then: Operation | None = None) -> None:
        self.key = key
        self.node_id: int | None = None
        """The last known coordinator, None while it is unknown."""
        self.lost = 0
        """Counts the requests that were sent and got no response: the broker may still process one of them after it has
        answered the next attempt."""
        self.last_error: AioprodError | None = None
        """Why the last attempt failed, None once one has succeeded."""
        self.sent_at: float | None = None
        """When the request in flight was sent, in monotonic seconds; None without one."""
        self._client = client
        self._key_type = key_type
        self._then = then
        self._finding = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Coordinator of {self._subject}, broker {self.node_id}>"

    @property
    def _subject(self) -> str:
        return f"{_SUBJECTS[self._key_type]} {self.key!r}"

    async def request(
        self,
        message: Request[ResponseT] | ByVersion[ResponseT],
        *,
        deadline: float,
        error_of: Callable[[ResponseT], int] = error_code_of,
        patience_s: float | None = None,
    ) -> ResponseT:
        """Send a request until the coordinator answers, or until `deadline` (monotonic seconds by the client's clock).

        It is retried, with `retry.backoff.ms`, when the coordinator has moved, is loading or can't be reached, or the
        response is lost or invalid: so a broker may process it more than once. `error_of` returns the error code of a
        response; codes other than COORDINATOR_RETRIABLE are left to the caller. `patience_s` is the timeout of one
        attempt, by default `request.timeout.ms`. Raises RequestTimedOutError with the last error, AuthorizationError or
        BrokerError when the brokers say why they don't name the coordinator, UnsupportedVersionError, and UsageError
        when the client is closed.
        """
        patience_s = self._client.settings.request_timeout_s if patience_s is None else patience_s
        tries = 0
        sent = 0
        last_error: AioprodError | None = None

        def build(version: int) -> Request[ResponseT]:
            nonlocal sent
            sent = 1
            self.sent_at = self._client.now()
            return message.build(version) if isinstance(message, ByVersion) else message

        kind, at_most = (message.kind, message.at_most) if isinstance(message, ByVersion) else (type(message), None)
        versioned = ByVersion(kind, build, at_most)
        while (left_s := deadline - self._client.now()) > 0.0:
            node_id: int | None = None
            sent = 0
            try:
                node_id = await self._find(left_s)
                response = await self._send(versioned, node_id, min(left_s, patience_s))
                code = self._code_of(response, error_of)
            except (BrokerConnectionError, ProtocolError) as error:
                self.sent_at = None
                last_error = prefer_specific_error(last_error, error, was_cut_off=left_s <= patience_s)
                self.lost += sent
                self._lost(node_id)
            else:
                self.sent_at = None
                if code not in COORDINATOR_RETRIABLE or not isinstance(code, ErrorCode):
                    self.last_error = None
                    return response
                last_error = BrokerError(f"Broker {node_id} answered {code.name}.", code=code)
                if code in _MOVED:
                    self._lost(node_id)
            self.last_error = last_error
            await self.pause(tries, deadline)
            tries += 1
        raise self._overdue(message.NAME, last_error) from last_error

    def _code_of(self, response: ResponseT, error_of: Callable[[ResponseT], int]) -> ErrorCode | int:
        try:
            return ErrorCode.of(error_of(response))
        except AioprodError:
            raise
        except Exception as error:  # of any type: it is the coordinator's failure
            raise self._client.unforeseen.failure(
                f"Reading the response of the coordinator of {self._subject}", error
            ) from error

    def _overdue(self, name: str, last_error: AioprodError | None) -> RequestTimedOutError:
        """The error of a request whose time is over.

        The last error may be old, so the new one also says how brokers are now.
        """
        now = self._client.describe()
        last = "" if last_error is None or last_error.message.rstrip(".") in now else f" Last: {last_error.message}"
        text = f"{name} was not answered by the coordinator of {self._subject} in time.{last} Now: {now}."
        return RequestTimedOutError(text, hint=self._client.advice())

    def disconnect(self) -> None:
        """Abort the connection to the coordinator.

        A broker processes the requests of a connection in order, and the one in flight would delay the next.
        """
        link = None if self.node_id is None else self._client.link(self.node_id)
        if link is not None and link.connection is not None:
            link.connection.abort(BrokerConnectionError(f"The connection to broker {self.node_id} was dropped."))

    async def pause(self, tries: int, deadline: float) -> None:
        """Wait before the next attempt, after `tries` that failed; never beyond the deadline."""
        await asyncio.sleep(min(self._client.backoff_s(tries), max(0.0, deadline - self._client.now())))

    def _lost(self, node_id: int | None) -> None:
        """Look the coordinator up again, unless another request has already found a new one."""
        if self.node_id == node_id:
            self.node_id = None

    # --- one attempt

    async def _send(self, message: ByVersion[ResponseT], node_id: int, timeout_s: float) -> ResponseT:
        """Send to a broker; raise BrokerConnectionError if it is silent and no longer the coordinator."""
        loop = asyncio.get_running_loop()
        request = self._client.request(message, node_id=node_id, timeout_s=timeout_s, connects_once=True)
        task = loop.create_task(request)
        check: asyncio.Task[bool] | None = None
        try:
            while not (await asyncio.wait([task], timeout=_SILENT_S))[0]:
                check = loop.create_task(self._has_moved(node_id, timeout_s))
                await asyncio.wait([task, check], return_when=asyncio.FIRST_COMPLETED)
                if check.done() and check.result() and not task.done():
                    raise BrokerConnectionError(f"Broker {node_id} was silent and is not the coordinator any more.")
            return task.result()
        finally:
            tasks = [task] if check is None else [task, check]
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _has_moved(self, node_id: int, timeout_s: float) -> bool:
        """Query another broker for the coordinator; False if none answers."""
        try:
            found = await self._look_up(min(timeout_s, _SILENT_S), avoid=node_id)
        except AioprodError:
            return False
        if found is None or found == node_id:
            return False
        self.node_id = found
        return True

    # --- look-up

    async def _find(self, left_s: float) -> int:
        """The coordinator's node id; raises BrokerConnectionError if there is none at the moment."""
        async with self._finding:
            if self.node_id is None:
                found = await self._look_up(min(left_s, self._client.settings.request_timeout_s))
                if found is None:
                    raise BrokerConnectionError(f"No broker is the coordinator of {self._subject} at the moment.")
                self.node_id = found
            return self.node_id

    async def _look_up(self, timeout_s: float, avoid: int | None = None) -> int | None:
        """Send FindCoordinator to any broker; None when there is no coordinator at the moment."""
        request = ByVersion(FindCoordinatorRequest, self._request_of)
        node_id, code, message = self._read(await self._client.request(request, timeout_s=timeout_s, avoid=avoid))
        if code == ErrorCode.NONE:
            link = self._client.link(node_id)
            if link is None or link.retired:
                # A new or returned broker: the metadata must have its address before a request can be sent.
                self._client.metadata.request_update(self._client.now())
            return node_id
        known = ErrorCode.of(code)
        if isinstance(known, ErrorCode) and known.retriable:
            return None
        text = f"The coordinator of {self._subject} could not be found: "
        answered = f"the broker answered {ErrorCode.name_of(known)}"
        resource_type, usual = _RIGHTS[self._key_type]
        rights = [Right(operation, resource_type, self.key) for operation in ("DESCRIBE", self._then or usual)]
        failure = f"{text}{(message or answered).rstrip('.')}."
        if ErrorCode.is_unclear(known):
            unclear = BrokerConnectionError(failure)
            self._client.unforeseen.log(unclear)
            raise unclear
        raise authorization_error(f"{text}{answered}.", known, rights) or BrokerError(failure, code=known)

    def _request_of(self, version: int) -> FindCoordinatorRequest:
        key_type = _KEY_TYPES[self._key_type]
        if version >= _FIRST_WITH_MANY_KEYS:
            return FindCoordinatorRequest(coordinator_keys=(self.key,), key_type=key_type)
        return FindCoordinatorRequest(key=self.key, key_type=key_type)

    def _read(self, answer: FindCoordinatorResponse) -> tuple[int, int, str | None]:
        """Node id, error code, and the broker's error message."""
        for row in answer.coordinators:
            if row.key == self.key:
                return row.node_id, row.error_code, row.error_message
        if answer.coordinators or (answer.error_code == ErrorCode.NONE and not answer.host):
            raise ProtocolError(f"The broker's response does not name the coordinator of {self._subject}.")
        return answer.node_id, answer.error_code, answer.error_message
