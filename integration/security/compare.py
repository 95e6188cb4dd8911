"""The errors of four clients with a wrong configuration, and their times: `python -m integration.security.compare`.

It prints a table in Markdown. Clients that are not installed are omitted (kafka-python is not part of the environment).
Each client has 40 s. aiokafka and kafka-python also log errors while they retry, which the table does not show.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aioprod import OAuthToken, Producer
from aioprod.cli.peer_settings import aiokafka_settings, librdkafka_settings
from aioprod.testing import Acl, KafkaCluster, Security
from aioprod.testing.security import unsecured_token

TOPIC: Final = "orders"
TIMEOUT_S: Final = 40.0
SHOWN: Final = 160


@dataclass(frozen=True, slots=True)
class Case:
    """A set-up that is wrong: the address, and settings as aioprod's; `token` goes by each client's own way."""

    title: str
    servers: str
    options: dict[str, Any]
    token: str = ""


@dataclass(slots=True)
class Said:
    """What a client said, and when."""

    began: float = field(default_factory=time.monotonic)
    text: str = ""
    after_s: float = 0.0

    def now(self, text: object) -> None:
        self.text, self.after_s = " ".join(str(text).split()), time.monotonic() - self.began


def by_aioprod(case: Case, said: Said) -> None:
    options = dict(case.options)
    if case.token:
        options["sasl_token_provider"] = lambda: OAuthToken(case.token, time.time() + 300.0)

    async def work() -> None:
        producer = Producer(case.servers, max_block_ms=int(TIMEOUT_S * 1000), **options)
        try:
            await producer.start()
            await producer.send(TOPIC, b"x")
        except Exception as error:
            said.now(f"{type(error).__name__}: {error}")
        finally:
            await producer.close(1)

    asyncio.run(work())


def by_confluent(case: Case, said: Said) -> None:
    import confluent_kafka

    heard: list[str] = []
    settings: dict[str, Any] = librdkafka_settings(case.options)
    if case.token:
        settings["oauth_cb"] = lambda _: (case.token, time.time() + 300.0)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": case.servers,
            "log_level": 0,
            "message.timeout.ms": 5000,
            "error_cb": lambda error: heard.append(str(error)),
            **settings,
        }
    )

    def delivered(error: object, message: object) -> None:
        said.now(f"report: {error}; error_cb: {heard[0] if heard else None}")

    producer.produce(TOPIC, b"x", on_delivery=delivered)
    producer.flush(TIMEOUT_S)


def by_aiokafka(case: Case, said: Said) -> None:
    import aiokafka
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc,unused-ignore]
        async def token(self) -> str:
            return case.token

    async def work() -> None:
        options = dict(case.options)
        own = [options.pop(name, None) for name in ("ssl_keystore_key", "ssl_keystore_certificate_chain")]
        settings = aiokafka_settings(options)
        if own[0] is not None:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("\n".join(str(part) for part in own))
                file.flush()
                settings["ssl_context"].load_cert_chain(file.name)
        if case.token:
            settings["sasl_oauth_token_provider"] = Provider()
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=case.servers, **settings)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await producer.start()
                await producer.send_and_wait(TOPIC, b"x")
        except Exception as error:
            said.now(f"{type(error).__name__}: {error}")
        finally:
            with suppress(Exception):
                async with asyncio.timeout(2):
                    await producer.stop()

    asyncio.run(work())


def by_kafka_python(case: Case, said: Said) -> None:
    kafka: Any = importlib.import_module("kafka")
    providers: Any = importlib.import_module("kafka.net.sasl.oauth")

    class Provider(providers.AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return case.token

    names = {"sasl_username": "sasl_plain_username", "sasl_password": "sasl_plain_password"}
    settings = {names.get(name, name): value for name, value in case.options.items() if not name.startswith("ssl_")}
    with tempfile.TemporaryDirectory() as folder:
        for ours, theirs in (
            ("ssl_truststore_certificates", "ssl_cafile"),
            ("ssl_keystore_key", "ssl_keyfile"),
            ("ssl_keystore_certificate_chain", "ssl_certfile"),
        ):
            if ours in case.options:
                path = Path(folder, theirs)
                path.write_text(case.options[ours])
                settings[theirs] = str(path)
        if case.token:
            settings["sasl_oauth_token_provider"] = Provider()
        try:
            producer = kafka.KafkaProducer(bootstrap_servers=case.servers, max_block_ms=10_000, **settings)
            try:
                producer.send(TOPIC, b"x").get(TIMEOUT_S)
            finally:
                producer.close(timeout=1)
        except Exception as error:
            said.now(f"{type(error).__name__}: {error}")


CLIENTS: Final[dict[str, tuple[str, Callable[[Case, Said], None]]]] = {
    "aioprod": ("aioprod", by_aioprod),
    "confluent-kafka": ("confluent_kafka", by_confluent),
    "aiokafka": ("aiokafka", by_aiokafka),
    "kafka-python": ("kafka", by_kafka_python),
}


def cases(secured: tuple[str, Security], certified: tuple[str, Security], plain: str) -> list[Case]:
    """Twelve of them. The brokers of `secured` know alice and bob, who may do nothing."""
    servers, security = secured
    good = security.client_options("alice", "PLAIN")
    scram = security.client_options("alice", "SCRAM-SHA-512")
    ca = {"ssl_truststore_certificates": good["ssl_truststore_certificates"]}
    token = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", **ca}
    own = certified[1].client_options()
    bare = {name: value for name, value in own.items() if "keystore" not in name}
    stranger = Security().authority.issue("mallory")
    foreign = own | {"ssl_keystore_key": stranger.key, "ssl_keystore_certificate_chain": stranger.chain}
    clear = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    clear |= {"sasl_username": "alice", "sasl_password": "alice-secret"}
    return [
        Case("wrong password, PLAIN", servers, good | {"sasl_password": "wrong-one"}),
        Case("wrong password, SCRAM", servers, scram | {"sasl_password": "wrong-one"}),
        Case("expired token", servers, token, unsecured_token("alice", -100.0).value),
        Case("unknown CA", servers, good | {"ssl_truststore_certificates": Security().authority.certificate}),
        Case("no client certificate", certified[0], bare),
        Case("untrusted client certificate", certified[0], foreign),
        Case("plaintext to TLS", servers, {"security_protocol": "PLAINTEXT"}),
        Case("TLS to plaintext", plain, {"security_protocol": "SSL", **ca}),
        Case("no log-in where one is wanted", servers, {"security_protocol": "SSL", **ca}),
        Case("a log-in where none is taken", plain, clear),
        Case("mechanism not enabled", certified[0], own | {"sasl_mechanism": "PLAIN"}),
        Case("no right to write", servers, security.client_options("bob", "PLAIN")),
    ]


async def main() -> None:
    """Start the brokers, and let each client meet each case."""
    logging.disable(logging.CRITICAL)
    security = Security(acls=[Acl("User:alice", "ALL", "topic", TOPIC)])
    needs = Security(mechanisms=["SCRAM-SHA-512"], client_certificates=True)
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(await KafkaCluster.start(backend="local", security=wanted))
            for wanted in (security, needs, None)
        ]
        secured, certified, plain = (cluster.bootstrap_servers for cluster in started)
        for cluster in started:
            await cluster.create_topic(TOPIC)
        there = {name: run for name, (module, run) in CLIENTS.items() if importlib.util.find_spec(module)}
        print("| set-up | client | s | what is said |\n| --- | --- | ---: | --- |", flush=True)
        for case in cases((secured, security), (certified, needs), plain):
            for name, run in there.items():
                said = Said()
                await asyncio.to_thread(run, case, said)
                text = (said.text or f"nothing in {TIMEOUT_S:.0f} s").replace("|", "\\|")
                print(f"| {case.title} | {name} | {said.after_s:.2f} | {text[:SHOWN]} |", flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
