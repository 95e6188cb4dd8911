"""The broker that looks after a transactional id or a group: found, asked, and found again when it has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar

from aioprod._rights import Right, authorization_error
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
from aioprod.net.client import Client, prefer_specific_error
from aioprod.wire.schema import Request, Response

__all__ = ["ELSEWHERE_OR_LATER", "Coordinator", "KeyType", "error_code_of"]

ResponseT = TypeVar("ResponseT", bound=Response)
KeyType: TypeAlias = Literal["group", "transaction"]

_KEY_TYPES: Final[dict[KeyType, int]] = {"group": 0, "transaction": 1}
_SUBJECTS: Final[dict[KeyType, str]] = {"group": "group", "transaction": "transactional id"}
_RIGHTS: Final[dict[KeyType, tuple[ResourceType, Operation]]] = {
    "group": ("group", "READ"),
    "transaction": ("transactional_id", "WRITE"),
}
"""What kind of resource a key is, and what is wanted of it once its coordinator is known."""
_FIRST_WITH_MANY_KEYS: Final = 4

_MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
ELSEWHERE_OR_LATER: Final = _MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""The codes that `Coordinator.request` acts on by itself."""

_DOUBT_S: Final = 2.0
"""When the coordinator is silent for so long, others are asked whether it still is the one: a broker that hangs tells
nobody, and the request time-out is long."""


def error_code_of(response: Response) -> int:
    """The error code of an answer that has one for the whole of it."""
    code: int = getattr(response, "error_code", 0)
    return code


class Coordinator:
    """Asks the coordinator of one `key`, wherever it is; several requests may be on their way at once.

    `key` is a transactional id or the name of a group, as `key_type` says. `node_id` is the broker that was the
    coordinator last, None while that is not known; `lost` counts the requests that were sent and got no answer: such a
    one may still be on its way when the next try has been answered. `trouble` is why it was not answered last, None
    once it was; `asked_at` is when the request was written that it has and has not answered, in monotonic seconds.
    """

    def __init__(self, client: Client, key_type: KeyType, key: str) -> None:
        self.key = key
        self.node_id: int | None = None
        self.lost = 0
        self.trouble: AioprodError | None = None
        self.asked_at: float | None = None
        self._client = client
        self._key_type = key_type
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
        """Ask the coordinator until it has answered, or until `deadline` (monotonic seconds by the client's clock).

        Goes on, with `retry.backoff.ms`, when the coordinator is another broker, is loading, can't be reached or the
        answer is lost or can't be read: the request may be carried out more than once. `error_of` says where an answer
        has its code; every code but those of ELSEWHERE_OR_LATER is left to the caller. `patience_s` is how long one
        answer may take, by default `request.timeout.ms`. Raises RequestTimedOutError with what went wrong last,
        AuthorizationError or BrokerError when the cluster refuses to name the coordinator, UnsupportedVersionError,
        and UsageError when the client is closed.
        """
        patience_s = self._client.settings.request_timeout_s if patience_s is None else patience_s
        tries = 0
        sent = 0
        trouble: AioprodError | None = None

        def build(version: int) -> Request[ResponseT]:
            nonlocal sent
            sent = 1
            self.asked_at = self._client.now()
            return message.build(version) if isinstance(message, ByVersion) else message

        kind, at_most = (message.kind, message.at_most) if isinstance(message, ByVersion) else (type(message), None)
        question = ByVersion(kind, build, at_most)
        while (left_s := deadline - self._client.now()) > 0.0:
            node_id: int | None = None
            sent = 0
            try:
                node_id = await self._find(left_s)
                response = await self._ask(question, node_id, min(left_s, patience_s))
            except (BrokerConnectionError, ProtocolError) as error:
                self.asked_at = None
                trouble = prefer_specific_error(trouble, error, was_cut_off=left_s <= patience_s)
                self.lost += sent
                self._lost(node_id)
            else:
                self.asked_at = None
                code = ErrorCode.of(error_of(response))
                if code not in ELSEWHERE_OR_LATER or not isinstance(code, ErrorCode):
                    self.trouble = None
                    return response
                trouble = BrokerError(f"Broker {node_id} answered {code.name}.", code=code)
                if code in _MOVED:
                    self._lost(node_id)
            self.trouble = trouble
            await self.pause(tries, deadline)
            tries += 1
        raise self._overdue(message.NAME, trouble) from trouble

    def _overdue(self, name: str, trouble: AioprodError | None) -> RequestTimedOutError:
        """What the last try met may be long ago, so how it stands with the brokers now is told too."""
        now = self._client.describe()
        last = "" if trouble is None or trouble.message.rstrip(".") in now else f" Last: {trouble.message}"
        text = f"{name} was not answered by the coordinator of {self._subject} in time.{last} Now: {now}."
        return RequestTimedOutError(text, hint=self._client.advice())

    def hang_up(self) -> None:
        """Drop the connection to the coordinator: a broker does not look at a request before it has answered the last
        one, and that one is of no use any more."""
        link = None if self.node_id is None else self._client.link(self.node_id)
        if link is not None and link.connection is not None:
            link.connection.abort(BrokerConnectionError(f"The connection to broker {self.node_id} was dropped."))

    async def pause(self, tries: int, deadline: float) -> None:
        """Wait before the next try, after `tries` that failed; never beyond the deadline."""
        await asyncio.sleep(min(self._client.backoff_s(tries), max(0.0, deadline - self._client.now())))

    def _lost(self, node_id: int | None) -> None:
        """That broker is no use; another request may have found a better one meanwhile."""
        if self.node_id == node_id:
            self.node_id = None

    # -- asking it ---------------------------------------------------------------------------------------------------

    async def _ask(self, message: ByVersion[ResponseT], node_id: int, timeout_s: float) -> ResponseT:
        """Ask a broker; give it up when it is silent and another one is the coordinator now."""
        loop = asyncio.get_running_loop()
        request = self._client.request(message, node_id=node_id, timeout_s=timeout_s, connects_once=True)
        task = loop.create_task(request)
        doubt: asyncio.Task[bool] | None = None
        try:
            while not (await asyncio.wait([task], timeout=_DOUBT_S))[0]:
                doubt = loop.create_task(self._has_moved(node_id, timeout_s))
                await asyncio.wait([task, doubt], return_when=asyncio.FIRST_COMPLETED)
                if doubt.done() and doubt.result() and not task.done():
                    raise BrokerConnectionError(f"Broker {node_id} was silent and is not the coordinator any more.")
            return task.result()
        finally:
            tasks = [task] if doubt is None else [task, doubt]
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _has_moved(self, node_id: int, timeout_s: float) -> bool:
        """Whether the others say so; no answer is none."""
        try:
            found = await self._look_up(min(timeout_s, _DOUBT_S), avoid=node_id)
        except AioprodError:
            return False
        if found is None or found == node_id:
            return False
        self.node_id = found
        return True

    # -- finding it --------------------------------------------------------------------------------------------------

    async def _find(self, left_s: float) -> int:
        """The coordinator's node id; raises BrokerConnectionError for what may pass."""
        async with self._finding:
            if self.node_id is None:
                found = await self._look_up(min(left_s, self._client.settings.request_timeout_s))
                if found is None:
                    raise BrokerConnectionError(f"No broker is the coordinator of {self._subject} just now.")
                self.node_id = found
            return self.node_id

    async def _look_up(self, timeout_s: float, avoid: int | None = None) -> int | None:
        """Ask any broker who the coordinator is; None when there is none at the moment."""
        question = ByVersion(FindCoordinatorRequest, self._question)
        node_id, code, said = self._read(await self._client.request(question, timeout_s=timeout_s, avoid=avoid))
        if code == ErrorCode.NONE:
            link = self._client.link(node_id)
            if link is None or link.retired:
                # A broker that is new, or back: the metadata has to name its address before it can be asked.
                self._client.metadata.request_update(self._client.now())
                self._client.wake()
            return node_id
        known = ErrorCode.of(code)
        if isinstance(known, ErrorCode) and known.retriable:
            return None
        text = f"The coordinator of {self._subject} is not told: "
        answered = f"the broker answered {ErrorCode.said(known)}"
        resource_type, then = _RIGHTS[self._key_type]
        rights = [Right("DESCRIBE", resource_type, self.key), Right(then, resource_type, self.key)]
        raise authorization_error(f"{text}{answered}.", known, rights) or BrokerError(
            f"{text}{(said or answered).rstrip('.')}.", code=known
        )

    def _question(self, version: int) -> FindCoordinatorRequest:
        key_type = _KEY_TYPES[self._key_type]
        if version >= _FIRST_WITH_MANY_KEYS:
            return FindCoordinatorRequest(coordinator_keys=(self.key,), key_type=key_type)
        return FindCoordinatorRequest(key=self.key, key_type=key_type)

    def _read(self, answer: FindCoordinatorResponse) -> tuple[int, int, str | None]:
        """Node id, error code, and what the broker says about that."""
        for row in answer.coordinators:
            if row.key == self.key:
                return row.node_id, row.error_code, row.error_message
        if answer.coordinators or (answer.error_code == ErrorCode.NONE and not answer.host):
            raise ProtocolError(f"The broker's answer does not name the coordinator of {self._subject}.")
        return answer.node_id, answer.error_code, answer.error_message
