"""aiokafka's producer and aioprod in its place log in to a real broker in the same way."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError

from aioprod.testing.security import unsecured_token
from integration.security.secured import Secured
from integration.support.clusters import MakeTopic
from tests.support.aiokafka_pairs import CLIENTS, Pair

pytestmark = [pytest.mark.timeout(120), pytest.mark.parametrize("client", CLIENTS)]


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Alice's tokens."""

    async def token(self) -> str:
        return unsecured_token("alice").value


def pair(secured: Secured, client: str) -> Pair:
    async def no_topic(partitions: int = 1, **config: object) -> str:
        raise NotImplementedError

    return Pair(CLIENTS[client], secured.servers, no_topic)


def options(secured: Secured, mechanism: str, password: str = "alice-secret") -> dict[str, Any]:
    given: dict[str, Any] = {"sasl_plain_username": "alice", "sasl_plain_password": password}
    if mechanism == "OAUTHBEARER":
        given = {"sasl_oauth_token_provider": Tokens()}
    context = ssl.create_default_context(cadata=secured.security.authority.certificate)
    return {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "ssl_context": context, **given}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_each_log_in(secured: Secured, make_topic: MakeTopic, client: str, mechanism: str) -> None:
    topic = await make_topic(secured.cluster)
    async with pair(secured, client).running(**options(secured, mechanism)) as producer:
        assert (await producer.send_and_wait(topic, b"two espressi")).offset == 0
    assert [record.value for record in await secured.stored(topic)] == [b"two espressi"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password(secured: Secured, client: str, mechanism: str) -> None:
    """aiokafka says that no broker was reached; the reason is in its log only."""
    made = pair(secured, client)
    producer = made.make(**options(secured, mechanism, "wrong"))
    with pytest.raises(made.either(KafkaConnectionError, AuthenticationFailedError)):
        await producer.start()
    await producer.stop()
