"""What is wrong with the arguments of a job is told before Spark is started, and the exit is with 2."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from aioprod.errors import ConfigError
from aioprod.spark import inputs, worker
from aioprod.spark.__main__ import main
from aioprod.spark.auditing import command as audit
from aioprod.spark.folder import local_folder
from aioprod.spark.inputs import check_source, local_path
from aioprod.spark.known_columns import check_columns
from aioprod.spark.loading import command as load
from aioprod.spark.manifest import FILE, Manifest, Plan
from aioprod.spark.planning import command as plan
from aioprod.spark.transactions.marker import Policy
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps
from aioprod.testing.fixtures import FakeClusterThread

PLAN = Plan(
    topic="orders",
    partitions=1,
    partitioner="murmur2",
    value="v",
    key=None,
    headers=None,
    timestamp=None,
    order_by=None,
    chunks=2,
    chunks_of="rows",
    input="i",
    rows=None,
    hash_xor=None,
)
MANIFEST = Manifest(run_id="june", cluster_id=None, topic_id=None, starts=(0,), plan=PLAN, chunks={})


class SparkStartsError(Exception):
    """In place of Spark."""


def starting() -> None:
    raise SparkStartsError


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (*inputs._SET_UP, "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    for command in (audit, load, plan):
        monkeypatch.setattr(command, "session", starting)


@pytest.fixture
def ask(
    fake_cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[Sequence[str]], str]:
    """Runs a job with arguments that it refuses, and returns what is said."""
    fake_cluster.create_topic("orders")
    (tmp_path / "orders.json").write_text('{"v": "1"}\n\n{"Customer": 7}\n')

    def asked(arguments: Sequence[str]) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--bootstrap-servers", fake_cluster.bootstrap])
        assert ended.value.code == 2
        said = capsys.readouterr()
        assert said.out == ""
        return said.err.removeprefix(f"python -m aioprod.spark {arguments[0]}: ")

    return asked


LOAD = ("load", "--from", "json:orders.json", "--topic", "orders", "--value", "v")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "orders.json"), "The input 'orders.json' is not understood.\nDid you mean json:orders.json?\n"),
        (("--from", "json:order.json"), "The input 'json:order.json' can't be read: there is no file and no folder"),
        (("--topic", "no-such-topic"), "Topic 'no-such-topic' does not exist.\n"),
        (
            ("--key", "customr"),
            (
                "The expression for key, customr, can't be used: the input 'json:orders.json' has no such column.\n"
                "Did you mean Customer?\n"
            ),
        ),
        (("--header", "of=it"), "The expression for header 'of', it, can't be used"),
        (("--rate", "fast"), "rate is 'fast'"),
        (("--chunks", "0"), "argument --chunks: '0' is not a whole number from 1 on"),
        (("--tasks", "two"), "argument --tasks: 'two' is not a whole number from 1 on"),
        (("--run-id", "a b"), "The run id 'a b' can't be used"),
        (("--resume",), "resume needs the run id"),
        (("--partitioner", "murmurr2"), "'murmurr2' names no partitioner.\nDid you mean 'murmur2'?\n"),
        (("--set", "lingerr.ms=5"), "'lingerr.ms' is not a setting"),
        (("--config", "nowhere.properties"), "The properties file 'nowhere.properties' can't be read"),
    ],
    ids=str,
)
def test_a_load_that_is_asked_wrongly(
    arguments: tuple[str, ...], said: str, ask: Callable[[Sequence[str]], str]
) -> None:
    assert ask([*LOAD, *arguments]).startswith(said)


def test_a_manifest_that_is_there(ask: Callable[[Sequence[str]], str], tmp_path: Path) -> None:
    Path(tmp_path, FILE).write_text(MANIFEST.to_json())
    given = [*LOAD, "--manifest", "."]
    assert ask([*given, "--run-id", "june"]).startswith("The folder '.' holds a manifest of run 'june' already.\n")
    assert ask([*given, "--run-id", "may"]).startswith(
        "The folder '.' holds the manifest of run 'june', not of 'may'.\n"
    )
    assert ask(given).startswith("The folder '.' holds the manifest of run 'june', not of a new run.\n")
    for goes_on in (("--run-id", "june", "--resume"), ("--dry-run",)):
        with pytest.raises(SparkStartsError):
            ask([*given, *goes_on])


def test_a_run_id_that_was_used(ask: Callable[[Sequence[str]], str], fake_cluster: FakeClusterThread) -> None:
    settings = OnceSettings.of(
        {"bootstrap.servers": fake_cluster.bootstrap}, transactional_id="aioprod-load.june", topic="orders"
    )
    steps = Steps(settings.session(), marker=settings.marker, owner="june 1", policy=Policy.REFUSE)
    worker.run(steps.start())
    worker.run(steps.begin(0))
    worker.run(steps.commit(0))
    worker.run(steps.close())
    given = [*LOAD, "--run-id", "june"]
    assert ask(given).startswith("Run 'june' has committed 1 chunks to topic 'orders' before.\n")
    with pytest.raises(SparkStartsError):
        ask([*given, "--resume"])


def test_what_is_asked_rightly_starts_spark(ask: Callable[[Sequence[str]], str]) -> None:
    for arguments in (
        (),
        ("--key", "customer"),
        ("--timestamp", "current_timestamp"),
        ("--run-id", "july"),
        ("--manifest", "new"),
        ("--chunks", "3", "--tasks", "1"),
    ):
        with pytest.raises(SparkStartsError):
            ask([*LOAD, *arguments])


def test_an_audit_that_is_asked_wrongly(ask: Callable[[Sequence[str]], str], tmp_path: Path) -> None:
    given = ["audit", "--manifest", ".", "--topic"]
    assert ask([*given, "orders"]).startswith("There is no manifest in '.'.\n")
    Path(tmp_path, FILE).write_text(MANIFEST.to_json())
    assert ask([*given, "orders"]).startswith("Run 'june' is not complete: 0 of 2 chunks are in its manifest.\n")
    Path(tmp_path, FILE).write_text(replace(MANIFEST, chunks={0: {}, 1: {}}).to_json())
    assert ask([*given, "no-such-topic"]).startswith("Topic 'no-such-topic' does not exist.\n")
    Path(tmp_path, FILE).write_text(json.dumps({"version": 99}))
    assert ask([*given, "orders"]).startswith("The manifest is not one of version")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("jsn:x", "The input 'jsn:x' is not understood.\nDid you mean json:x?\n"),
        ("json:nowhere/x", "The input 'json:nowhere/x' can't be read: there is no file and no folder 'nowhere/x'.\n"),
    ],
)
def test_a_plan_of_no_input(source: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "--from", source, "--key", "k", "--counts", "4"])
    assert capsys.readouterr().err == f"python -m aioprod.spark plan: {said}"


WRONG = {"key": "custmer", "value": "to_json(struct(*))"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("csv:a.csv", "id,customer\n1,2\n"),
        ("csv:a.csv", '\ufeff"id","customer"\r\n1,2\r\n'),
        ("json:a.json", '{"id": 1}\n{"customer": null}\n'),
    ],
)
def test_a_name_that_is_no_column(name: str, content: str) -> None:
    Path(name.partition(":")[2]).write_text(content, encoding="utf-8", newline="")
    with pytest.raises(ConfigError, match="for key, custmer, can't be used") as caught:
        check_columns(name, WRONG)
    assert caught.value.hint == "Did you mean customer?"
    check_columns(name, {"key": "CUSTOMER", "value": "custmer + 1", "timestamp": None})
    with pytest.raises(ConfigError) as caught:
        check_columns(name, {"key": "zzz"})
    assert caught.value.hint == "It has id, customer."


def test_a_name_that_is_no_column_of_parquet() -> None:
    parquet.write_table(pa.table({"id": [1], "customer": ["a"]}), "a.parquet")
    with pytest.raises(ConfigError, match="for key, custmer"):
        check_columns("parquet:a.parquet", WRONG)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("csv:a.csv", "id,id\n1,2\n"),
        ("csv:a.csv", "id,\n1,2\n"),
        ("csv:a.csv", 'id,"a\nb"\n1,2\n'),
        ("csv:a.csv", ""),
        ("json:a.json", "[1]\n"),
        ("json:a.json", "no json\n"),
        ("json:a.json", ""),
        ("parquet:a.parquet", "no parquet"),
    ],
)
def test_columns_that_only_spark_can_tell(name: str, content: str) -> None:
    Path(name.partition(":")[2]).write_text(content, encoding="utf-8", newline="")
    check_columns(name, WRONG)
    Path("folder").mkdir()
    check_columns("json:folder", WRONG)
    check_columns("table:orders", WRONG)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("orders/2024", "orders/2024"),
        ("file:///data/a b", "/data/a b"),
        ("file:/data", "/data"),
        ("s3://bucket/orders", None),
        ("hdfs:/orders", None),
        ("orders/*.json", None),
        ("orders/{a,b}", None),
    ],
)
def test_which_places_are_on_this_machine(place: str, path: str | None) -> None:
    assert local_path(place) == (None if path is None else Path(path))
    assert (local_folder(place) is None) == (path is None)


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"])
def test_what_another_hand_has_set_up_is_left_to_spark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        check_source("json:nowhere")
    monkeypatch.setenv(name, "x")
    assert check_source("json:nowhere") == ("json", "nowhere")
