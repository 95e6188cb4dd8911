"""The commands of `aioprod` on a real broker, each as a program of its own, through pipes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aioprod.cli.doctor import command as doctor
from aioprod.cli.doctor.command import make_parser
from aioprod.outbox import Outbox
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from tests.support.programs import program

LINES = 200_000


async def run(
    *arguments: str, status: int = 0, given: bytes = b"", cluster: KafkaCluster
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "aioprod", *arguments, "-b", cluster.bootstrap_servers]
    ended = await asyncio.to_thread(subprocess.run, command, input=given, capture_output=True, check=False)
    assert ended.returncode == status, ended.stderr
    return ended


async def document(*arguments: str, cluster: KafkaCluster) -> Any:
    return json.loads((await run(*arguments, "--json", cluster=cluster)).stdout)


def lines(count: int) -> bytes:
    source = random.Random(5)
    return b"".join(
        b"%d %s\n" % (number, source.randbytes(source.randrange(40)).hex().encode()) for number in range(count)
    )


async def test_lines_from_a_pipe_come_back(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster)
    given = lines(LINES)
    said = (await run("produce", topic, given=given, cluster=kafka_cluster)).stderr
    assert said.startswith(b"200,000 records delivered to ")
    back = (await run("read", topic, cluster=kafka_cluster)).stdout
    assert hashlib.sha256(back).digest() == hashlib.sha256(given).digest()


async def test_a_record_that_is_too_large_in_line_70_000(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster)
    content = lines(70_000).split(b"\n")[:70_000]
    content[69_999] = b"x" * 3000
    limited = ["-X", "max.request.size=2000", "-X", "batch.size=1000"]
    ended = await run("produce", topic, *limited, given=b"\n".join(content), status=1, cluster=kafka_cluster)
    assert b"line 70,000 of stdin: " in ended.stderr
    back = (await run("read", topic, cluster=kafka_cluster)).stdout.splitlines()
    assert back[:69_999] == content[:69_999]


async def test_ctrl_c_in_a_transaction_leaves_nothing(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster)
    servers = kafka_cluster.bootstrap_servers
    with program("produce", topic, "-b", servers, "--transactional-id", topic, "--json") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"a\nb\n")
        running.stdin.flush()
        while (await document("offsets", topic, cluster=kafka_cluster))["partitions"][0]["offset"] < 2:
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        report = json.loads(await asyncio.to_thread(running.stdout.read))
        running.stdin.close()
        assert await asyncio.to_thread(running.wait, 120) == 130
    assert (report["aborted"], report["interrupted"]) == (True, True)
    assert (await run("read", topic, "--isolation", "read_committed", cluster=kafka_cluster)).stdout == b""


async def test_topics_groups_configs_and_offsets(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    topic = unused_topic
    await run("topics", "create", topic, "--partitions", "2", "--config", "retention.ms=3600000", cluster=kafka_cluster)
    await run("produce", topic, "--partition", "1", given=lines(10), cluster=kafka_cluster)
    (described,) = await document("topics", "describe", topic, cluster=kafka_cluster)
    assert [row["state"] for row in described["partitions"]] == ["ok", "ok"]
    assert described["partitions"][1]["bytes"] > 100
    offsets = await document("offsets", topic, cluster=kafka_cluster)
    assert [row["offset"] for row in offsets["partitions"]] == [0, 10]
    settings = await document("configs", "describe", "topic", topic, cluster=kafka_cluster)
    assert ("retention.ms", "3600000") in [(row["name"], row["value"]) for row in settings]
    await run("configs", "alter", "topic", topic, "--reset", "retention.ms", cluster=kafka_cluster)
    read = await run("read", topic, "--group", f"{topic}-g", "--count", "4", cluster=kafka_cluster)
    assert read.stdout == b"".join(lines(10).splitlines(keepends=True)[:4])
    lag = await document("groups", "lag", f"{topic}-g", cluster=kafka_cluster)
    assert lag["total"] == 6
    assert f"{topic}-g" in [group["group"] for group in await document("groups", "list", cluster=kafka_cluster)]
    (group,) = await document("groups", "describe", f"{topic}-g", cluster=kafka_cluster)
    assert group["members"] == []
    reset = ["groups", "reset", f"{topic}-g", "--to-offset", "7", "--topic", f"{topic}:1"]
    planned = await document(*reset, "--dry-run", cluster=kafka_cluster)
    change = {"topic": topic, "partition": 1, "before": 4, "after": 7}
    assert planned == {"group": f"{topic}-g", "partitions": [change], "reset": False}
    refused = await run(*reset, status=1, cluster=kafka_cluster)
    assert b"needs a yes" in refused.stderr
    await run(*reset, "--yes", cluster=kafka_cluster)
    lag = await document("groups", "lag", f"{topic}-g", cluster=kafka_cluster)
    assert lag["total"] == 3
    forget = ["groups", "delete-offsets", f"{topic}-g", "--topic", f"{topic}:1", "--yes"]
    assert (await document(*forget, cluster=kafka_cluster))["deleted"]
    await run("groups", "delete", f"{topic}-g", "--yes", cluster=kafka_cluster)
    assert f"{topic}-g" not in [group["group"] for group in await document("groups", "list", cluster=kafka_cluster)]
    await run("topics", "grow", topic, "--partitions", "4", "--yes", cluster=kafka_cluster)
    await run("topics", "delete", topic, "--yes", cluster=kafka_cluster)
    missing = await run("topics", "describe", topic, status=1, cluster=kafka_cluster)
    assert b"does not exist" in missing.stderr


async def test_a_healthy_broker_and_the_doctor(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster)
    found = await document("doctor", "--topic", topic, "--transactional-id", topic, cluster=kafka_cluster)
    assert found["verdict"] in ("ok", "warning"), found
    checks = {one["check"]: one["status"] for one in found["findings"]}
    assert {checks[name] for name in ("write", "idempotent", "round trip", "transactions", "clock")} == {"ok"}


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_off_by_an_hour(
    kafka_cluster: KafkaCluster,
    unused_topic: str,
    hours: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_the_broker = "message.timestamp.type=LogAppendTime"
    await run("topics", "create", unused_topic, "--config", by_the_broker, cluster=kafka_cluster)
    monkeypatch.setattr(doctor, "wall_clock", lambda: time.time() + 3600 * hours)
    given = make_parser().parse_args([kafka_cluster.bootstrap_servers, "--topic", unused_topic, "--json"])
    assert await doctor.diagnose(given, make_parser()) == 1
    failed = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["status"] == "failed"]
    assert [one["check"] for one in failed] == ["clock"]
    assert "3,600 s" in failed[0]["found"] or "3,599 s" in failed[0]["found"] or "3,601 s" in failed[0]["found"]


async def test_tls_on_a_plain_listener(kafka_cluster: KafkaCluster) -> None:
    ended = await run("doctor", "-X", "security.protocol=SSL", "--json", status=1, cluster=kafka_cluster)
    (failed,) = [one for one in json.loads(ended.stdout)["findings"] if one["status"] == "failed"]
    assert (failed["check"], failed["found"]) == ("protocol", "It has no TLS, and security.protocol=SSL wants it.")


async def test_an_outbox_is_relayed(kafka_cluster: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> None:
    """By two relays, one after the other; the second one is ended in the middle of its work."""
    topic = await make_topic(kafka_cluster)
    path = tmp_path / "shop.db"
    ddl = await asyncio.to_thread(
        subprocess.check_output, [sys.executable, "-m", "aioprod", "outbox", "ddl", "sqlite"], text=True
    )
    outbox = Outbox()
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        connection.executescript(ddl)

        def rows() -> int:
            return int(connection.execute("SELECT count(*) FROM outbox").fetchone()[0])

        def relay_until(left_max: int) -> None:
            arguments = ("--database", str(path), "-b", kafka_cluster.bootstrap_servers, "--id", topic)
            with program("outbox", "relay", *arguments) as relay:
                assert relay.stderr is not None
                assert any(b"continues behind position" in line for line in relay.stderr)
                while rows() > left_max:
                    assert relay.poll() is None, relay.communicate()
                    time.sleep(0.01)
                relay.send_signal(signal.SIGTERM)
                _, errors = relay.communicate(timeout=60)
                assert relay.returncode == 0, errors

        for begin, end, left_max in ((0, 5_000, 0), (5_000, 15_000, 9_000), (15_000, 15_000, 0)):
            with connection:
                for number in range(begin, end):
                    outbox.put(connection, topic, b"%d" % number)
            relay_until(left_max)
    found = (await run("read", topic, "--isolation", "read_committed", cluster=kafka_cluster)).stdout
    assert found.split() == [b"%d" % number for number in range(15_000)]
