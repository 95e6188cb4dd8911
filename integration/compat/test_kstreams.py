"""kstreams with aiokafka's producer and with aioprod's: an engine that sends, and a stream that reads and sends on.

kstreams takes its producer when it is imported, so each run is a process of its own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic


@pytest.mark.parametrize("producer", ["aiokafka", "aioprod"])
async def test_an_engine_and_a_stream(kafka_cluster: KafkaCluster, make_topic: MakeTopic, producer: str) -> None:
    topics = [await make_topic(kafka_cluster, 2) for _ in range(2)]
    command = [sys.executable, "-m", "tests.support.kstreams_app", producer, kafka_cluster.bootstrap_servers, *topics]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        f"producer of {producer}",
        "batch in [1]",
        "batches in [0, 1]",
        "partitions [0, 1] [0, 1]",
        "sent to 1 at 0, timestamp 1234",
        "came back b'text!' b'key' {'name': 'value'}",
        "tombstone None gone",
    ]


def test_an_import_of_kstreams_that_came_first_is_said() -> None:
    program = "import kstreams\nimport aioprod.compat.aiokafka as compat\ncompat.install()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1] == (
        "aioprod.errors.UsageError: kstreams was imported before aioprod.compat.aiokafka.install() was called, and has "
        "aiokafka's producer. Hint: Call it before the first import of kstreams."
    )
