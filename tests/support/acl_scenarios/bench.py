"""What the scenarios share: a cluster that allows nothing, a user, and the checks of errors."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pytest

from aioprod import Producer
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    Operation,
    ResourceType,
)
from aioprod.reader import read
from aioprod.testing import Acl, Security

__all__ = ["GUARDED", "PATIENCE_S", "Bench", "Scenario", "causes_of", "denied", "error_of", "new_name"]

GUARDED: Final = Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"], acls=[], super_users=["User:super"])
"""Each client logs in with its own name, and has no rights."""

PATIENCE_S: Final = 60.0
"""The timeout of waits: no result depends on how long anything takes."""

T = TypeVar("T")
Scenario = Callable[["Bench"], Awaitable[None]]


def new_name() -> str:
    """A name that nothing else has."""
    return f"n{uuid.uuid4().hex[:12]}"


@dataclass
class Bench:
    """A `GUARDED` cluster, and a user that may write to topic `ok`, and nothing else; `secret` is another topic."""

    servers: str
    create_topic: Callable[[str], Awaitable[object]]
    add_acls: Callable[..., Awaitable[object]]
    user: str = field(default_factory=new_name)
    ok: str = field(default_factory=new_name)
    secret: str = field(default_factory=new_name)
    group: str = field(default_factory=new_name)
    transactional_id: str = field(default_factory=new_name)

    async def check(self, scenario: Scenario) -> None:
        """Run a scenario."""
        await self.create_topic(self.ok)
        await self.create_topic(self.secret)
        await self.allow("WRITE", "topic", self.ok)
        await scenario(self)

    async def allow(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Give the user a right."""
        await self.add_acls(Acl(f"User:{self.user}", operation, resource_type, name))

    def options(self, **more: Any) -> dict[str, Any]:
        """The settings of the user's clients."""
        return {"bootstrap_servers": self.servers, **GUARDED.client_options(self.user), **more}

    def producer(self, **more: Any) -> Producer:
        """A producer of the user that sends records of one loop iteration in one request."""
        return Producer(**self.options(linger_ms=20, **more))

    async def stores(self, topic: str, values: list[bytes]) -> None:
        """Exactly these values are in a topic, in any order, once ended transactions are complete."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := await self._values(topic)) < len(values):
                await asyncio.sleep(0.01)
        assert sorted(found) == sorted(values)

    async def _values(self, topic: str) -> list[bytes]:
        """The values in a topic, read by a super user."""
        options = GUARDED.client_options("super")
        reading = read(topic, bootstrap_servers=self.servers, isolation="read_committed", **options)
        return [record.value async for record in reading]


def denied(
    error: BaseException | None,
    operation: Operation,
    resource_type: ResourceType,
    resource: str,
    *more: Operation,
    place: str | None = None,
) -> AuthorizationError:
    """Check that the error has the missing right, and the command that grants it.

    `more` are operations that will be needed next; `place` is the resource in the command.
    """
    assert isinstance(error, AuthorizationError)
    assert (error.resource_type, error.resource, error.operation) == (resource_type, resource, operation)
    operations = " ".join(f"--operation {one.title().replace('_', '')}" for one in (operation, *more))
    flag = f"--{resource_type.replace('_', '-')}"
    place = place or (flag if resource_type == "cluster" else f"{flag} {resource}")
    assert error.hint is not None
    assert f"{' and '.join((operation, *more))} on " in error.hint
    assert f"kafka-acls.sh --add --allow-principal User:NAME {operations} {place}`" in error.hint
    # Some of the brokers' own messages are a page of internals.
    assert "RequestContext" not in str(error)
    assert len(error.message) < 300
    return error


async def error_of(awaitable: Awaitable[T], kind: type[AioprodError] = AuthorizationError) -> AioprodError:
    """The exception of an awaitable, which has to be of this class."""
    with pytest.raises(kind) as caught:
        await awaitable
    assert type(caught.value) is kind
    return caught.value


def causes_of(error: BaseException | None) -> list[BaseException]:
    """The error, and what caused it."""
    return [] if error is None else [error, *causes_of(error.__cause__)]
