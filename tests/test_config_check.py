"""`python -m aioprod.config --check FILE`: a properties file as people bring it, shown without its secrets."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from aioprod.config import ProducerConfig
from aioprod.config._base import settings_of
from aioprod.config._check import check_file
from aioprod.config._elsewhere import owner_of
from aioprod.errors import ConfigError
from aioprod.group.config import MemberConfig
from aioprod.reader.config import ReaderConfig

SECRET = "hunter2"
CLOUD = f"""\
# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=pkc-1.eu.example.com:9092
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username='KEY' password='{SECRET}';
sasl.mechanism=PLAIN
client.dns.lookup=use_all_dns_ips

# Best practice for higher availability in Apache Kafka clients prior to 3.0
session.timeout.ms=45000
acks=all
schema.registry.url=https://registry.example.com
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=USER:{SECRET}
"""

TOKEN = 'x.ScramLoginModule required username="i" password="p" tokenauth=true;'


def written(folder: Path, content: str) -> Path:
    path = folder / "client.properties"
    path.write_text(content)
    return path


def checked(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aioprod.config", "--check", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_file_of_a_cloud_is_shown_without_its_secrets(tmp_path: Path) -> None:
    path = written(tmp_path, CLOUD)
    found = checked(path)
    assert (found.returncode, found.stderr) == (0, "")
    assert SECRET not in found.stdout
    lines = found.stdout.splitlines()
    assert lines[0] == f"{path}: a valid ProducerConfig"
    assert "  sasl.jaas.config = [hidden]" in lines
    assert "  bootstrap.servers = ('pkc-1.eu.example.com:9092',)" in lines
    assert "The user 'KEY' logs in by PLAIN." in lines
    assert "Left out: session.timeout.ms, a setting of consumers." in lines
    assert "Left out: basic.auth.user.info, a setting of the Schema Registry." in lines


def test_a_file_that_cant_be_used_is_an_error_of_one_line(tmp_path: Path) -> None:
    found = checked(written(tmp_path, CLOUD.replace("sasl.mechanism=PLAIN", "sasl.mechanism=SCRAM-SHA-256")))
    assert (found.returncode, found.stdout) == (1, "")
    assert "which is not for sasl.mechanism=SCRAM-SHA-256" in found.stderr
    assert SECRET not in found.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Connections are not encrypted.\nThere is no log-in.\n"),
        ("security.protocol=SSL", "a broker's certificate must be for its host.\nThere is no log-in.\n"),
        ("security.protocol=SSL\nssl.endpoint.identification.algorithm=", "certificate may be for any host.\n"),
        (
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={TOKEN}",
            "Connections are not encrypted.\nThe delegation token 'i' logs in by SCRAM-SHA-256.\n",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.token.provider=my.module:token",
            "A token logs in by OAUTHBEARER.\n",
        ),
        (
            (
                "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
                "sasl.oauthbearer.token.endpoint.url=https://idp.example.com/token?a=b\n"
                "sasl.oauthbearer.client.credentials.client.id=orders\n"
                "sasl.oauthbearer.client.credentials.client.secret=raw:hunter2\n"
            ),
            (
                "A token of https://idp.example.com/token logs in by OAUTHBEARER; "
                "the endpoint gets client credentials, with a secret.\n"
            ),
        ),
        (
            (
                "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
                "sasl.oauthbearer.token.endpoint.url=file:///run/token\n"
            ),
            "The token in '/run/token' logs in by OAUTHBEARER.\n",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n",
            "AWS credentials log in by AWS_MSK_IAM.\n",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n",
            "A Kerberos ticket logs in by GSSAPI.\n",
        ),
    ],
)
def test_what_connections_do(content: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"bootstrap.servers=a:1\n{content}\n")
    assert said in check_file(path, ProducerConfig)


def test_settings_of_other_clients_are_left_out_of_a_file_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioprod")
    config = ProducerConfig.from_properties(written(tmp_path, CLOUD))
    assert config.acks == -1
    (line,) = caplog.messages
    assert "session.timeout.ms (consumers), schema.registry.url (the Schema Registry)" in line
    assert SECRET not in line
    member = MemberConfig.from_properties(tmp_path / "client.properties")
    assert member.session_timeout_ms == 45_000
    assert "acks (producers)" in caplog.messages[1]


@pytest.mark.parametrize(
    ("cls", "line"),
    [
        (ProducerConfig, "linger.mss=5"),
        (ProducerConfig, "compression.typ=zstd"),
        (MemberConfig, "fetch.min.byte=5"),
        (MemberConfig, "session.timeout=5"),
    ],
)
def test_what_may_be_a_mistake_is_refused(cls: type[ProducerConfig | MemberConfig], line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"'{line.partition('=')[0]}' is not a setting"):
        cls.from_properties(written(tmp_path, f"bootstrap.servers=a:1\n{line}\n"))


def test_other_ways_to_make_a_configuration_leave_nothing_out() -> None:
    with pytest.raises(ConfigError, match=r"'session\.timeout\.ms' is not a setting"):
        ProducerConfig.from_dict({"bootstrap.servers": "a:1", "session.timeout.ms": 1})


def test_whose_a_setting_is() -> None:
    assert owner_of("value.deserializer", ["producers"]) == "consumers"
    assert owner_of("value.deserializer", ["consumers"]) is None
    assert owner_of("value.subject.name.strategy", []) == "the Schema Registry"
    assert owner_of("linger.mss", []) is None


def test_every_setting_that_only_producers_have_is_theirs() -> None:
    """A member that reads the same file leaves them out."""
    others = {name for cls in (MemberConfig, ReaderConfig) for name in settings_of(cls)}
    owners = {name: owner_of(name.replace("_", "."), []) for name in settings_of(ProducerConfig) if name not in others}
    assert owners["resolve_timeout_ms"] == "producers"
    del owners["interceptor_classes"]  # Java's consumers have it, too, with other classes.
    assert {name: owner for name, owner in owners.items() if owner != "producers"} == {}
