"""`aioprod fake`: the program serves, says what it can't do, and forgets the oldest records."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from typing import Any

import pytest

from aioprod import Producer
from aioprod.cli.__main__ import main
from aioprod.cli.fake import OBJECTS, make_parser, new_cluster, share_of, trim, trim_all
from aioprod.errors import BrokerError, ErrorCode
from aioprod.group import Member
from aioprod.reader import read
from aioprod.testing import FakeCluster
from tests.support.programs import interruptible, program


def greeting(running: subprocess.Popen[bytes]) -> Any:
    assert running.stdout is not None
    return json.loads(running.stdout.readline())


def end(running: subprocess.Popen[bytes]) -> bytes:
    """Send SIGINT; returns what the program wrote to stderr."""
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=50)
    assert running.returncode == 130
    return said


async def produced_and_read(servers: str, topic: str) -> list[bytes | None]:
    async with Producer(servers) as producer:
        await producer.send_many(topic, [b"1", b"2"])
    return [record.value async for record in read(topic, bootstrap_servers=servers)]


def test_clients_produce_and_read() -> None:
    arguments = ["--port", "0", "--brokers", "2", "--topic", "orders:6", "--topic", "meals", "--json"]
    with program("fake", *arguments) as running:
        greeted = greeting(running)
        assert greeted["topics"] == {"orders": 6, "meals": 1}
        assert greeted["bootstrap_servers"].count(",") == 1
        assert asyncio.run(produced_and_read(greeted["bootstrap_servers"], "meals")) == [b"1", b"2"]
        assert asyncio.run(produced_and_read(greeted["bootstrap_servers"], "created")) == [b"1", b"2"]
        assert b"Traceback" not in end(running)


def test_what_is_not_kafka_is_turned_away_and_named() -> None:
    with program("fake", "--port", "0", "--json") as running:
        servers = greeting(running)["bootstrap_servers"]
        host, port = servers.split(":")
        with closing(socket.create_connection((host, int(port)), 30)) as client:
            client.sendall(b"\x00\x00\x00\x0c\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x00\xff")
            assert client.recv(1) == b""
        with closing(socket.create_connection((host, int(port)), 30)) as client:
            client.sendall(b"\x00\x00\x00\x0a\x00\x1d\x00\x02\x00\x00\x00\x01\xff\xff")
            assert client.recv(1) == b""
        assert asyncio.run(produced_and_read(servers, "t")) == [b"1", b"2"]
        said = end(running)
    assert b"as its request could not be handled: key 29, version 2, is not known" in said
    assert b"A client was disconnected, as its request could not be handled: " in said
    assert b"Traceback" not in said


def test_more_clients_than_open_files_are_said_once() -> None:
    command = ["/bin/sh", "-c", f"ulimit -n 40; exec {shlex.quote(sys.executable)} -m aioprod fake --port 0 --json"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=interruptible) as running,
        ExitStack() as clients,
    ):
        host, port = greeting(running)["bootstrap_servers"].split(":")
        for _ in range(60):
            clients.enter_context(closing(socket.create_connection((host, int(port)), 30)))
        assert running.stderr is not None
        assert running.stderr.readline() == (
            b"A client could not be served: [Errno 24] Too many open files. This is said once.\n"
        )
        clients.close()
        assert b"Traceback" not in end(running)


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["fake", "--port", str(port)]) == 1
    assert f"Port {port} of 127.0.0.1, or one of those after it, can't be listened at: another program" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "70000"], "'70000' is not a port"),
        (["--port", "65535", "--brokers", "2"], "2 brokers need ports up to 65536"),
        (["--topic", "a b"], "Topic 'a b' has a name with other characters"),
        (["--topic", "a:0"], "'0' is not a whole number from 1"),
        (["--topic", "a", "--topic", "a:2"], "--topic a is given twice"),
        (["--keep", "0"], "'0' is not a whole number from 1"),
        (["--partitions", "0"], "'0' is not a whole number from 1"),
    ],
)
def test_invalid_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fake", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


async def test_the_oldest_batches_are_deleted_as_by_retention() -> None:
    async with FakeCluster() as brokers:
        partition = brokers.create_topic("t").partitions[0]
        async with Producer(brokers.bootstrap) as producer:
            for _ in range(10):
                await producer.send("t", b"x" * 1000)
        size = len(partition.log[0].data) + OBJECTS
        trim(partition, 10 * size)
        assert (partition.first_offset, len(partition.log)) == (0, 10)
        trim(partition, 4 * size - 1)
        assert (partition.first_offset, len(partition.log)) == (7, 3)
        assert [record.offset async for record in read("t", bootstrap_servers=brokers.bootstrap)] == [7, 8, 9]


async def test_small_batches_count_as_what_they_take_in_memory() -> None:
    async with FakeCluster() as brokers:
        partition = brokers.create_topic("t").partitions[0]
        async with Producer(brokers.bootstrap) as producer:
            for _ in range(100):
                await producer.send("t", b"x")
        trim(partition, 20_000)
        assert 10 < len(partition.log) < 30, "of 70 bytes each, all of them would be there"
        assert partition.first_offset == 100 - len(partition.log)


@pytest.mark.parametrize(
    ("sizes", "share"),
    [([], 100), ([10, 20], 100), ([50, 50], 100), ([10, 60, 90], 45), ([200, 100], 50), ([10, 200, 20], 70)],
)
def test_the_largest_partitions_lose_first(sizes: list[int], share: int) -> None:
    assert share_of(sizes, 100) == share
    assert sum(min(size, share) for size in sizes) <= 100


async def test_all_partitions_together_have_a_limit() -> None:
    async with FakeCluster() as brokers:
        small, large = brokers.create_topic("small").partitions[0], brokers.create_topic("large").partitions[0]
        async with Producer(brokers.bootstrap) as producer:
            for topic in ("small", *["large"] * 9):
                await producer.send(topic, b"x" * 1000)
        size = len(small.log[0].data) + OBJECTS
        trim_all(brokers, 100 * size, 5 * size)
        assert (len(small.log), len(large.log)) == (1, 4)


async def test_clients_meet_kafkas_limits_and_the_number_of_partitions() -> None:
    async with new_cluster(make_parser().parse_args(["--port", "0", "--partitions", "3"])) as brokers:
        with pytest.raises(BrokerError) as refused:
            async with Member(brokers.bootstrap, group_id="g", topics="t", session_timeout_ms=5_000) as member:
                await anext(member)
        assert refused.value.code == ErrorCode.INVALID_SESSION_TIMEOUT
        async with Producer(brokers.bootstrap) as producer:
            assert len(await producer.partitions_for("created")) == 3


async def test_records_of_an_open_transaction_are_kept() -> None:
    async with FakeCluster() as brokers:
        partition = brokers.create_topic("t").partitions[0]
        async with Producer(brokers.bootstrap, transactional_id="x") as producer, producer.transaction():
            await producer.send("t", b"1")
            trim(partition, 1)
            assert [stored.batch.base_offset for stored in partition.log] == [0]
        trim(partition, 1)
        assert partition.log == []


async def test_a_cluster_that_runs_for_long_keeps_no_requests() -> None:
    async with FakeCluster(keeps_requests=False) as brokers:
        async with Producer(brokers.bootstrap) as producer:
            await producer.send("t", b"1")
        assert brokers.seen == []


async def test_brokers_listen_at_ports_that_follow_each_other() -> None:
    for _ in range(20):
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            first = free.getsockname()[1]
        try:
            async with FakeCluster(2, port=first) as brokers:
                assert brokers.bootstrap == f"127.0.0.1:{first},127.0.0.1:{first + 1}"
                return
        except OSError:  # Another program has taken one of them meanwhile.
            continue
    pytest.fail("no two ports are free")
