"""A producer whose log-in is refused later on: its records say why, and it comes back when that is mended."""

from __future__ import annotations

import dataclasses

import pytest

from aioprod import Producer
from aioprod.errors import AuthenticationError, NotSentError
from aioprod.testing import FakeCluster, Security

SECURITY = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])


async def delivered(producer: Producer, value: bytes) -> None:
    """Send until it is delivered; what was not sent can be sent again."""
    while True:
        try:
            await producer.send("orders", value)
        except NotSentError:
            continue
        return


async def refused(producer: Producer) -> NotSentError:
    """Send until a record expires because of the log-in; a process that is stopped meanwhile expires it before."""
    while True:
        with pytest.raises(NotSentError) as caught:
            await producer.send("orders", b"lost")
        if isinstance(caught.value.__cause__, AuthenticationError):
            return caught.value


async def test_a_password_that_is_changed_while_the_producer_runs() -> None:
    async with FakeCluster(security=SECURITY) as brokers:
        brokers.create_topic("orders")
        options = SECURITY.client_options("alice") | {"delivery_timeout_ms": 400, "request_timeout_ms": 200}
        async with Producer(
            brokers.bootstrap, linger_ms=0, reconnect_backoff_max_ms=50, retry_backoff_ms=10, **options
        ) as producer:
            await delivered(producer, b"before")
            brokers.security = dataclasses.replace(SECURITY, users={"alice": "another"})
            await brokers[1].cut()
            error = await refused(producer)
            assert "rejected the log-in of user 'alice' by PLAIN" in error.message
            assert str(error).count("Hint") == 1
            brokers.security = SECURITY
            await delivered(producer, b"after")
        assert [record.value for record in brokers.records("orders")] == [b"before", b"after"]
