"""Each client.properties of docs/clouds.md is read, and means what its chapter says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from aioprod.config import Password, ProducerConfig, credentials_of
from aioprod.config._aws import AwsIdentity
from aioprod.config._token_source import Grant, TokenEndpoint, TokenFile
from aioprod.net.protocol.sasl.aws_msk_iam import region_of

PAGE: Final = Path(__file__).parents[1] / "docs" / "clouds.md"
FILES: Final = [
    (chapter[0], text)
    for chapter in (part.split("\n", 1) for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:])
    for text in re.findall(r"^```properties\n(.*?)^```$", chapter[1], re.MULTILINE | re.DOTALL)
]


def is_password(*expected: str) -> Callable[[Any], bool]:
    return lambda found: isinstance(found, Password) and (found.mechanism, found.username, found.password) == expected


def is_endpoint(found: Any) -> bool:
    return (
        isinstance(found, TokenEndpoint)
        and found.grant is Grant.CLIENT_SECRET
        and (found.client_id, found.client_secret, found.scope) == ("CLIENT_ID", "CLIENT_SECRET", "kafka")
        and found.extensions == {"logicalCluster": "lkc-abc123", "identityPoolId": "pool-abc1"}
    )


CONNECTION_STRING: Final = (
    "Endpoint=sb://orders.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=KEY="
)
EXPECTED: Final[list[tuple[str, Callable[[Any], bool] | None]]] = [
    ("Confluent Cloud", is_password("PLAIN", "CLUSTER_API_KEY", "CLUSTER_API_SECRET")),
    ("Confluent Cloud", is_endpoint),
    ("Amazon MSK", lambda found: found == AwsIdentity("AWS_MSK_IAM", profile="orders")),
    ("Amazon MSK", lambda found: found == AwsIdentity("OAUTHBEARER")),
    ("Amazon MSK", is_password("SCRAM-SHA-512", "orders", "PASSWORD")),
    ("Aiven for Apache Kafka", None),
    ("Aiven for Apache Kafka", is_password("SCRAM-SHA-256", "avnadmin", "PASSWORD")),
    ("Azure Event Hubs", is_password("PLAIN", "$ConnectionString", CONNECTION_STRING)),
    ("Redpanda", is_password("SCRAM-SHA-256", "orders", "PASSWORD")),
    ("Strimzi", is_password("SCRAM-SHA-512", "orders", "PASSWORD")),
    ("Strimzi", None),
    ("Strimzi", lambda found: found == TokenFile("/var/run/secrets/kafka/token", {})),
]
"""The chapter of each file, and who logs in; None where the certificate says it."""


def test_each_file_has_its_row() -> None:
    assert [chapter for chapter, _ in FILES] == [chapter for chapter, _ in EXPECTED]


@pytest.mark.parametrize(
    ("text", "expected"), [(text, row[1]) for (_, text), row in zip(FILES, EXPECTED, strict=False)]
)
def test_a_file_is_read(tmp_path: Path, text: str, expected: Callable[[Any], bool] | None) -> None:
    (tmp_path / "client.properties").write_text(text)
    config = ProducerConfig.from_properties(tmp_path / "client.properties")
    assert config.bootstrap_servers
    if expected is None:
        assert config.security_protocol == "SSL"
        assert config.ssl_keystore_location is not None
    else:
        assert config.security_protocol == "SASL_SSL"
        assert expected(credentials_of(config))
        for host in (server.rpartition(":")[0] for server in config.bootstrap_servers):
            assert (region_of(host) == "eu-west-1") == ("amazonaws" in host)


def test_the_secret_of_a_strimzi_user_may_be_named(tmp_path: Path) -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="orders" password="PASSWORD";'
    (tmp_path / "sasl.jaas.config").write_text(jaas)
    config = ProducerConfig.from_options(
        bootstrap_servers="orders-kafka-bootstrap:9093",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=f"file:{tmp_path / 'sasl.jaas.config'}",
    )
    assert is_password("SCRAM-SHA-512", "orders", "PASSWORD")(credentials_of(config))
