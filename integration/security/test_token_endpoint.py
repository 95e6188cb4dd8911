"""Signed tokens from an endpoint, and brokers that verify them with the endpoint's keys (KIP-768)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aioprod import Producer, ProducerConfig
from aioprod.errors import AuthenticationError
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.fixtures import running_cluster
from aioprod.testing.security import TokenIssuer
from integration.support.brokers import VERSIONS
from integration.support.clusters import MakeTopic
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider, identity_provider

pytestmark = pytest.mark.timeout(120)

JAVA = "org.apache.kafka.common.security.oauthbearer"


class Trusting(NamedTuple):
    """A cluster that takes the tokens of a provider."""

    cluster: KafkaCluster
    idp: IdentityProvider

    def config(self, **given: Any) -> ProducerConfig:
        settings = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.idp.url,
        }
        return ProducerConfig.from_dict(settings | {name.replace("_", "."): value for name, value in given.items()})


BY_SECRET = {
    "sasl_oauthbearer_client_credentials_client_id": CLIENT,
    "sasl_oauthbearer_client_credentials_client_secret": SECRET,
}


@pytest.fixture(scope="module", params=VERSIONS)
def trusting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    with identity_provider() as idp:
        keys = tmp_path_factory.mktemp("keys") / "jwks.json"
        keys.write_text(idp.jwks)
        issuer = TokenIssuer(keys, ISSUER, AUDIENCE)
        security = Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"], issuer=issuer)
        # The file of the keys is on this machine, so the brokers have to be, too.
        with running_cluster(security=security, version=request.param, backend="local") as cluster:
            yield Trusting(cluster, idp)


async def send(config: ProducerConfig, topic: str) -> None:
    async with Producer(config=config) as producer:
        for number in range(10):
            await producer.send(topic, b"%d" % number)


async def test_each_way_to_ask(trusting: Trusting, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = await make_topic(trusting.cluster)
    (tmp_path / "key.pem").write_text(trusting.idp.client_key)
    (tmp_path / "token").write_text(trusting.idp.token("pod"))
    made = {
        "sasl_oauthbearer_assertion_private_key_file": str(tmp_path / "key.pem"),
        "sasl_oauthbearer_assertion_claim_sub": CLIENT,
    }
    await send(trusting.config(**BY_SECRET), topic)
    await send(trusting.config(**made), topic)
    await send(trusting.config(**made, sasl_oauthbearer_jwt_retriever_class=f"{JAVA}.JwtBearerJwtRetriever"), topic)
    await send(trusting.config(sasl_oauthbearer_token_endpoint_url=(tmp_path / "token").as_uri()), topic)
    assert len(trusting.idp.requests) == 3


async def test_tokens_for_somebody_else_are_explained(trusting: Trusting, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(trusting.idp.token("pod", aud="other"))
    config = trusting.config(sasl_oauthbearer_token_endpoint_url=(tmp_path / "token").as_uri())
    with pytest.raises(AuthenticationError, match=r"rejected the log-in of the token of 'pod'.*aud=other, sub=pod"):
        await Producer(config=config).start()


async def test_a_wrong_secret_is_told_by_the_endpoint(trusting: Trusting) -> None:
    config = trusting.config(**BY_SECRET | {"sasl_oauthbearer_client_credentials_client_secret": "wrong"})
    with pytest.raises(AuthenticationError) as caught:
        await Producer(config=config).start()
    assert caught.value.message == (
        f"The token endpoint {trusting.idp.url} answered 401 (invalid_client: Client authentication failed)."
    )
