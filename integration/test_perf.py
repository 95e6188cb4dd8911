"""`aioprod perf` on a real broker."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from integration.support.reading import stored


async def perf(cluster: KafkaCluster, topic: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "aioprod", "perf", topic, "-b", cluster.bootstrap_servers, "--json", *arguments]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


async def test_a_load_is_stored(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 3)
    found = await perf(kafka_cluster, topic, "--records", "5000", "--key-size", "4", "--size", "50")
    assert (found["records"], found["failed"]) == (5000, 0)
    records = await stored(kafka_cluster, topic)
    assert [(len(record.key or b""), len(record.value or b"")) for record in records] == [(4, 50)] * 5000


async def test_records_are_read_back(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 3)
    found = await perf(kafka_cluster, topic, "--records", "50", "--e2e")
    assert (found["records"], found["failed"]) == (50, 0)
    assert len(await stored(kafka_cluster, topic)) == 50


async def test_other_clients_send_the_same_load(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster)
    found = await perf(kafka_cluster, topic, "--records", "500", "--compare", "confluent,aiokafka")
    assert [client["records"] for client in found["clients"].values()] == [500] * 3
    assert len(await stored(kafka_cluster, topic)) == 3 * 501
