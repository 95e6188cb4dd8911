"""Sink, source, exactly-once delivery and jobs with brokers that require TLS and a log-in; Spark shows no secret."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from aioprod import OAuthToken
from aioprod.spark import audit, exactly_once, load
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.fixtures import running_cluster
from aioprod.testing.security import MECHANISMS, unsecured_token
from integration.spark.topics import new_topic
from integration.support.brokers import NEWEST, TRANSACTION_VERSION_1

PASSWORD = "marked-d5c1"
SECURITY = Security(users={"alice": PASSWORD}, mechanisms=["PLAIN", "SCRAM-SHA-256"])
JAAS = f'x.PlainLoginModule required username="alice" password="{PASSWORD}";'


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    with running_cluster(backend="local", security=SECURITY) as cluster:
        yield cluster


def settings(kind: str) -> dict[str, Any]:
    """The ways to give secrets: a password, Java's JAAS, and a certificate of one's own as text."""
    given = SECURITY.client_options("alice", "SCRAM-SHA-256" if kind == "password" else "PLAIN")
    if kind == "jaas":
        del given["sasl_username"], given["sasl_password"]
        given["sasl_jaas_config"] = JAAS
    if kind == "key":
        own = SECURITY.authority.issue("alice")
        given |= {"ssl_keystore_key": own.key, "ssl_keystore_certificate_chain": own.chain}
    return given


def spark_options(cluster: KafkaCluster, given: dict[str, Any]) -> dict[str, str]:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **named}


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in rows.collect())


def copied_exactly_once(spark: SparkSession, cluster: KafkaCluster, given: dict[str, Any], folder: Path) -> list[int]:
    """What is in a topic after 200 numbers were written to another one and copied from there, in transactions."""
    options = spark_options(cluster, given)
    source, target = new_topic(cluster, 2), new_topic(cluster, 3)
    rows = spark.range(0, 200, 1, 2).selectExpr("cast(id as string) as value")
    rows.write.format("aioprod").options(**options).option("topic", source).mode("append").save()
    stream = spark.readStream.format("aioprod").options(**options).option("subscribe", source)
    query = exactly_once(
        stream.option("startingOffsets", "earliest").load().select("value"),
        transactional_id=target,
        bootstrap_servers=cluster.bootstrap_servers,
        topic=target,
        checkpoint_location=str(folder / "checkpoint"),
        trigger={"availableNow": True},
        **given,
    )
    query.awaitTermination()
    assert query.exception() is None
    read = spark.read.format("aioprod").options(**options).option("kafka.isolation.level", "read_committed")
    return numbers(read.option("subscribe", target).load())


def without(secrets: list[str], *texts: str) -> None:
    for text in texts:
        assert not [secret for secret in secrets if secret in text]


@pytest.mark.parametrize("kind", ["password", "jaas", "key"])
def test_rows_go_out_and_come_back_and_no_secret_is_kept(
    kind: str, spark: SparkSession, spark_events: Path, secured: KafkaCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    given = settings(kind)
    options = spark_options(secured, given)
    topic = new_topic(secured, 3)
    rows = spark.range(0, 300, 1, 3).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    rows.write.format("aioprod").options(**options).option("topic", topic).mode("append").save()
    read = spark.read.format("aioprod").options(**options).option("subscribe", topic).load()
    assert numbers(read) == list(range(300))
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        read.explain(extended=True)
    events = "".join(path.read_text() for path in spark_events.rglob("events_*"))
    assert "SQLExecutionStart" in events
    assert "aioprod" in events
    key_lines = str(given.get("ssl_keystore_key", "")).splitlines()[1:-1]
    without([PASSWORD, *key_lines], plan.getvalue(), events, *capfd.readouterr())


def test_exactly_once_with_a_log_in(spark: SparkSession, secured: KafkaCluster, tmp_path: Path) -> None:
    given = settings("password")
    assert copied_exactly_once(spark, secured, given, tmp_path) == list(range(200))
    without([PASSWORD], *(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()))


def test_a_load_and_its_audit_with_a_log_in(spark: SparkSession, secured: KafkaCluster, tmp_path: Path) -> None:
    given = settings("jaas")
    topic = new_topic(secured, 3)
    rows = spark.range(0, 500, 1, 2).selectExpr("cast(id as string) as text")
    place: dict[str, Any] = {"bootstrap_servers": secured.bootstrap_servers, "topic": topic, **given}
    loaded = load(rows, value="text", key="text", manifest=str(tmp_path), progress=False, **place)
    assert loaded.manifest is not None
    report = audit(spark, manifest=loaded.manifest, report=str(tmp_path / "report.html"), **place)
    assert (report.is_clean, report.found) == (True, 500)
    without([PASSWORD], *(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()))


# -- every mechanism ---------------------------------------------------------------------------------------------------


def token() -> OAuthToken:
    """Named in options, and called in each worker."""
    return unsecured_token("alice")


@pytest.fixture(scope="module", params=[NEWEST, TRANSACTION_VERSION_1])
def certified(request: pytest.FixtureRequest) -> Iterator[tuple[KafkaCluster, Security]]:
    """Every mechanism, sessions that end, and clients need a certificate as well."""
    security = Security(client_certificates=True, session_ms=3000)
    with running_cluster(backend="local", security=security, version=request.param) as cluster:
        yield cluster, security


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sink_source_and_exactly_once_by_each_mechanism(
    mechanism: str, spark: SparkSession, certified: tuple[KafkaCluster, Security], tmp_path: Path
) -> None:
    cluster, security = certified
    given = security.client_options("alice", mechanism)
    if mechanism == "OAUTHBEARER":
        given["sasl_token_provider"] = f"{__name__}:token"
    assert copied_exactly_once(spark, cluster, given, tmp_path) == list(range(200))
