"""Relays that are killed lose and repeat nothing."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from aioprod.messages import EndTxnRequest, InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest
from aioprod.outbox import Outbox
from aioprod.testing.fixtures import FakeClusterThread
from tests.outbox.postgres_databases import NEEDS_POSTGRES

OUTBOX = Outbox()
RELAY = """
import asyncio, sys
from aioprod import outbox
from aioprod.relay import Relay

async def main(kind, database, servers):
    async with getattr(outbox, kind)(database, outbox.Outbox()) as source:
        await Relay(source, servers, transactional_id="outbox", transaction_timeout_ms=10_000, linger_ms=0).run()

asyncio.run(main(*sys.argv[1:]))
"""


class Process:
    """A relay in a process of its own."""

    def __init__(self, kind: str, database: str, cluster: FakeClusterThread) -> None:
        self._arguments = [sys.executable, "-c", RELAY, kind, database, cluster.bootstrap]
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._running = subprocess.Popen(self._arguments, env=environment)

    def kill(self) -> None:
        assert self._running is not None
        self._running.kill()
        self._running.wait()


def prepared(kind: str, database: str) -> Callable[[range], None]:
    """Create the outbox, and return what puts rows whose values are these numbers."""
    if kind == "SqliteTable":

        def connect() -> Any:
            return closing(sqlite3.connect(database, timeout=30))

        with connect() as connection:
            connection.executescript(OUTBOX.ddl("sqlite"))
    else:

        def connect() -> Any:
            return psycopg.connect(database)

        with connect() as connection:
            connection.execute(OUTBOX.ddl("postgres"))

    def put(numbers: range) -> None:
        with connect() as connection:
            for number in numbers:
                OUTBOX.put(connection, "orders", b"%d" % number)
            connection.commit()

    return put


@pytest.mark.parametrize("kind", ["SqliteTable", pytest.param("PostgresTable", marks=NEEDS_POSTGRES)])
@pytest.mark.parametrize(
    ("request_kind", "takes_effect"),
    [
        pytest.param(InitProducerIdRequest, True, marks=pytest.mark.long),
        pytest.param(ProduceRequest, False, marks=pytest.mark.long),
        pytest.param(ProduceRequest, True, marks=pytest.mark.long),
        pytest.param(TxnOffsetCommitRequest, False, marks=pytest.mark.long),
        pytest.param(TxnOffsetCommitRequest, True, marks=pytest.mark.long),
        pytest.param(EndTxnRequest, False, marks=pytest.mark.long),
        (EndTxnRequest, True),
    ],
)
async def test_a_relay_is_killed_while_the_brokers_have_its_request(
    fake_cluster: FakeClusterThread, request: pytest.FixtureRequest, kind: str, request_kind: Any, takes_effect: bool
) -> None:
    database = request.getfixturevalue("path" if kind == "SqliteTable" else "dsn")
    put = prepared(kind, database)
    fake_cluster.create_topic("orders", partitions=1)
    process = Process(kind, database, fake_cluster)
    process.start()
    try:
        put(range(5))
        await until_sent(fake_cluster, 5)
        fault = fake_cluster.fault(request_kind, hold=True, drop=None if takes_effect else "before")
        if request_kind is InitProducerIdRequest:
            process.kill()
            process.start()
        put(range(5, 10))
        await asyncio.to_thread(fake_cluster.call, fault.reached.wait)
        process.kill()
        fake_cluster.call(fault.release)
        process.start()
        put(range(10, 15))
        await until_sent(fake_cluster, 15)
    finally:
        process.kill()
    assert numbers(fake_cluster) == list(range(15))


def numbers(cluster: FakeClusterThread) -> list[int]:
    return [int(record.value or b"") for record in cluster.records("orders", 0)]


async def until_sent(cluster: FakeClusterThread, count: int) -> None:
    while len(numbers(cluster)) < count:
        await asyncio.sleep(0.01)
