"""Log-ins to Amazon MSK by IAM: where keys come from, how long they are kept, and what is said without them."""

from __future__ import annotations

import base64
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from botocore.credentials import Credentials

from aioprod import Producer
from aioprod.config import ClientConfig
from aioprod.config._aws import AwsIdentity
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.net.login.aws import AwsCredentials
from aioprod.net.login.logins import Logins
from aioprod.net.security import security_of
from aioprod.net.settings import ClientSettings
from aioprod.testing import FakeCluster, Security
from tests.support.identity_provider import Answer, IdentityProvider, identity_provider
from tests.support.links import ALL, bench, node_of

MODULE: Final = "software.amazon.msk.auth.iam.IAMLoginModule required"
HANDLER: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
BROKER: Final = "b-1.orders.abc.c2.kafka.eu-west-1.amazonaws.com"
MSK: Final = Security(protocol="SASL_PLAINTEXT", mechanisms=["AWS_MSK_IAM"], session_ms=60_000)
IAM: Final = {
    "bootstrap.servers": f"{BROKER}:9098",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "AWS_MSK_IAM",
}


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine, and alice's keys in a file."""
    for name in tuple(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    write_keys(tmp_path, "alice-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


def write_keys(folder: Path, secret: str) -> None:
    (folder / "credentials").write_text(
        f"[default]\naws_access_key_id=alice\naws_secret_access_key={secret}\n"
        "[other]\naws_access_key_id=bob\naws_secret_access_key=bob-secret\n"
    )


def logins(**options: Any) -> Logins:
    given = {name.replace("_", "."): value for name, value in options.items()}
    settings = ClientSettings.from_config(ClientConfig.from_dict(IAM | given))
    _, found = security_of(settings, Random(1))
    assert found is not None
    return found


async def sent(source: Logins, host: str = BROKER) -> dict[str, str]:
    """The fields of a log-in's first message."""
    _, message = (await source.new(host)).begin(is_renewal=False)
    assert isinstance(message, SaslAuthenticateRequest)
    found: dict[str, str] = json.loads(message.auth_bytes)
    return found


async def test_a_link_logs_in_and_renews_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    config = ClientConfig.from_options(bootstrap_servers="localhost:9092", **MSK.client_options())
    async with FakeCluster(security=MSK) as brokers, bench(node_of(brokers), security=config) as b:
        await b.ready()
        b.clock.advance(0.5)
        assert b.link.connection is not None
        await b.link.connection.request(ALL)
        b.clock.advance(58.0)
        b.poll()
        await b.events.seen("writable")
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 2


async def test_a_producer_by_the_file_of_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    async with FakeCluster(security=MSK) as brokers:
        options: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "AWS_MSK_IAM",
            "sasl_jaas_config": f'{MODULE} awsProfileName="other";',
            "sasl_client_callback_handler_class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        }
        async with Producer(brokers.bootstrap, **options) as producer:
            assert (await producer.send("orders", b"one")).offset == 0


async def test_a_wrong_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    write_keys(tmp_path, "wrong")
    async with FakeCluster(security=MSK) as brokers:
        with pytest.raises(AuthenticationError) as caught:
            await Producer(brokers.bootstrap, **MSK.client_options()).start()
    assert "rejected the log-in of AWS access key 'alice' by AWS_MSK_IAM: [" in caught.value.message
    assert caught.value.hint == "Check that this identity may kafka-cluster:Connect, and the clock of this machine."


async def test_keys_in_files_are_read_again_when_a_broker_rejected_them(tmp_path: Path) -> None:
    found = logins()
    assert (await sent(found))["x-amz-credential"].startswith("alice/")
    path = tmp_path / "credentials"
    path.write_text(path.read_text().replace("=alice\n", "=carol\n"))
    assert (await sent(found))["x-amz-credential"].startswith("alice/")
    found.rejected()
    assert (await sent(found))["x-amz-credential"].startswith("carol/")


async def test_where_the_region_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/eu-west-1/" in (await sent(logins()))["x-amz-credential"]
    with pytest.raises(ConfigError, match="The AWS region is not known: 'localhost' has none in its name"):
        await logins().new("localhost")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    assert "/us-east-2/" in (await sent(logins(), "localhost"))["x-amz-credential"]
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert "/us-east-1/" in (await sent(logins(), "localhost"))["x-amz-credential"]
    assert "/eu-west-1/" in (await sent(logins()))["x-amz-credential"]


@pytest.mark.parametrize(
    "mechanism", [{}, {"sasl_mechanism": "OAUTHBEARER", "sasl_login_callback_handler_class": HANDLER}]
)
async def test_options_that_change_nothing_are_named_once(
    mechanism: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required" if mechanism else MODULE
    options = "awsMaxRetries=5 awsProfileName=other awsMaxBackOffTimeMs=500 awsDebugCreds=true"
    with caplog.at_level(logging.INFO, "aioprod"):
        await logins(sasl_jaas_config=f"{module} {options};", **mechanism).new(BROKER)
    assert caplog.messages == [
        "Options of sasl.jaas.config that change nothing in aioprod: awsMaxRetries, awsMaxBackOffTimeMs, awsDebugCreds."
    ]


async def test_tokens_for_oauthbearer() -> None:
    """As Java's file asks for them; a profile may be named there, too."""
    found = logins(
        sasl_mechanism="OAUTHBEARER",
        sasl_login_callback_handler_class=HANDLER,
        sasl_client_callback_handler_class=HANDLER,
        sasl_jaas_config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'awsProfileName="other";',
    )
    _, message = (await found.new(BROKER)).begin(is_renewal=False)
    assert isinstance(message, SaslAuthenticateRequest)
    token = message.auth_bytes.split(b"Bearer ")[1].split(b"\1")[0]
    url = base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4)).decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
    assert "&X-Amz-Credential=bob%2F" in url


# -- roles -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityProvider]:
    """AWS's service that gives temporary keys for a role."""
    with identity_provider() as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", running.url.removesuffix("/token"))
        yield running


def temporary_keys(name: str, minutes: float) -> Answer:
    ends = (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Answer(
        200,
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
        f"<AccessKeyId>{name}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
        f"<Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>".encode(),
    )


ROLE: Final = {
    "sasl.jaas.config": f'{MODULE} awsRoleArn="arn:aws:iam::123456789012:role/orders" awsRoleExternalId="ext" '
    'awsStsRegion="eu-west-1";'
}


async def test_a_role_is_assumed_once_and_again_in_time(sts: IdentityProvider) -> None:
    sts.answers = [temporary_keys("one", 60), temporary_keys("two", 60)]
    found = logins(**ROLE)
    for _ in range(3):
        fields = await sent(found)
        assert fields["x-amz-credential"].startswith("one/")
        assert fields["x-amz-security-token"] == "t"
    found.rejected()
    assert (await sent(found))["x-amz-credential"].startswith("one/"), "another session would be another principal"
    (asked,) = sts.requests
    assert (asked.form["RoleSessionName"], asked.form["ExternalId"]) == ("aioprod", "ext")
    sts.answers = [temporary_keys("old", 5), temporary_keys("new", 60)]
    found = logins(**ROLE)
    assert [(await sent(found))["x-amz-credential"].partition("/")[0] for _ in range(3)] == ["old", "new", "new"]


async def test_a_role_that_may_not_be_assumed(sts: IdentityProvider) -> None:
    sts.answers = [
        Answer(
            403,
            b'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Scheduler</Type>'
            b"<Code>AccessDenied</Code><Message>alice may not</Message></Error></ErrorResponse>",
        )
    ]
    with pytest.raises(AuthenticationError) as caught:
        await sent(logins(**ROLE))
    assert caught.value.message == (
        "The AWS credentials can't be fetched: An error occurred (AccessDenied) when calling the AssumeRole operation: "
        "alice may not."
    )


# -- without keys ----------------------------------------------------------------------------------------------------


async def test_no_keys_anywhere(tmp_path: Path) -> None:
    (tmp_path / "credentials").unlink()
    with pytest.raises(AuthenticationError, match=r"The AWS credentials were not found\. Hint: They are looked for in"):
        await sent(logins())


async def test_a_profile_that_there_is_not() -> None:
    found = logins(sasl_jaas_config=f"{MODULE} awsProfileName=nobody;")
    with pytest.raises(
        AuthenticationError, match=r"can't be fetched: The config profile \(nobody\) could not be found"
    ):
        await sent(found)


async def test_the_text_of_a_program_that_gives_keys_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "credentials").unlink()
    (tmp_path / "config").write_text("[default]\ncredential_process = sh -c 'echo hunter2 >&2; exit 1'\n")
    with pytest.raises(AuthenticationError) as caught:
        await sent(logins())
    assert caught.value.message == "The AWS credentials can't be fetched: CredentialRetrievalError."


async def test_keys_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look-up at a time, in one thread: those of the loop are needed for other things, too."""
    released = threading.Event()
    looked_up = []

    def slow(identity: AwsIdentity) -> object:
        looked_up.append(identity)
        released.wait(60)
        return Credentials("alice", "alice-secret")

    monkeypatch.setattr("aioprod.net.login.aws._found", slow)
    found = AwsCredentials(AwsIdentity("AWS_MSK_IAM"), timeout_s=0.05)
    try:
        for _ in range(3):
            with pytest.raises(AuthenticationError, match=r"The AWS credentials were not found within 0\.05 s"):
                await found.keys()
    finally:
        released.set()
    assert len(looked_up) <= 1


class Refused(AwsCredentials):
    """Credentials that a broker refuses while a thread looks at them."""

    kept: Credentials | None = None

    @property
    def _found(self) -> Any:
        seen, self.kept = self.kept, None
        return seen

    @_found.setter
    def _found(self, found: Any) -> None:
        self.kept = found


async def test_keys_that_are_forgotten_while_they_are_fetched() -> None:
    found = Refused(AwsIdentity("AWS_MSK_IAM"), timeout_s=60.0)
    found.kept = Credentials("bob", "bob-secret")
    assert (await found.keys()).access == "bob"


@pytest.mark.parametrize(
    ("program", "error"),
    [("/no/such/program", "FileNotFoundError"), ("echo", "JSONDecodeError"), ("echo hunter2", "JSONDecodeError")],
)
async def test_a_program_that_gives_no_keys(tmp_path: Path, program: str, error: str) -> None:
    """Whatever botocore raises is an error of this log-in, not the end of the client; another try may have keys."""
    (tmp_path / "credentials").unlink()
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {program}\n")
    found = logins()
    with pytest.raises(AuthenticationError) as caught:
        await sent(found)
    assert str(caught.value) == f"The AWS credentials can't be fetched: {error}."
    write_keys(tmp_path, "alice-secret")
    assert (await sent(found))["x-amz-credential"].startswith("alice/")


async def test_a_clock_by_which_new_keys_have_expired(sts: IdentityProvider) -> None:
    sts.answers = [temporary_keys("old", -5)] * 5
    with pytest.raises(AuthenticationError) as caught:
        await sent(logins(**ROLE))
    assert caught.value.message == "The AWS credentials can't be fetched: RuntimeError."
    assert caught.value.hint == "They had expired when they came: check the clock of this machine."


async def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(ConfigError, match=r"the package botocore\. Hint: Install it: pip install 'aioprod\[aws\]'"):
        await sent(logins())


async def test_the_time_in_a_signature_is_that_of_this_machine() -> None:
    signed = datetime.strptime((await sent(logins()))["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
    assert 0 <= time.time() - signed.timestamp() < 60
