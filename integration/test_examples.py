"""The examples, the code in the documentation, and the demo, with real brokers."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from aioprod import Admin, Producer
from aioprod.routing.hashes import murmur2_partition
from aioprod.testing import FakeSchemaRegistry, KafkaCluster
from examples import arrow_batches, asgi_service, bulk, custom_partitioner, fire_and_forget
from examples.demo import __main__ as demo
from examples.demo.screen import Screen
from examples.demo.source import one_file
from integration.support.clusters import MakeTopic
from integration.support.missing import missing_for_java
from integration.support.reading import stored
from tests.support.snippets import PAGES, ROOT, snippets

EXAMPLES = ROOT / "examples"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments from the project's root; a warning is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )


# --- examples


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("arrow_batches.py", r"^100,000 rows are stored:\n(  readings-\d+: offsets \d+ to \d+\n)+"),
        ("asgi_service.py", r'201 \{"partition":\d+,"offset":\d+\}'),
        ("bulk.py", r"^20,000 rows are stored:\n(  customers-\d+: offsets \d+ to \d+\n)+"),
        ("custom_partitioner.py", r"hospital -> partition 0, offset \d+\n"),
        ("fire_and_forget.py", r"20,000 stored"),
        ("group_transform.py", r"2,000 words, 2,000 of them different\n"),
        ("group_worker.py", r"two is revoked \[\d, \d\]\n(.*\n)+all of 3,000 jobs are done\n"),
        ("shared_transaction.py", r"load 0 is committed: 5,000 rows by 2 workers\n"),
        ("test_with_docker.py", r"2 passed"),
    ],
)
def test_each_example_runs_as_its_docstring_says(kafka_cluster: KafkaCluster, name: str, printed: str) -> None:
    assert f"python examples/{name} localhost:9092" in (EXAMPLES / name).read_text()
    ended = run(f"examples/{name}", kafka_cluster.bootstrap_servers)
    assert ended.returncode == 0, ended.stderr
    assert re.search(printed, ended.stdout), ended.stdout


def test_every_example_is_run_here() -> None:
    """But those for Spark, which have their tests beside the others that need it."""
    own = "".join(page.read_text() for page in (Path(__file__), *Path(__file__).parent.glob("spark/test_examples*.py")))
    assert {path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in own} == set()


@pytest.mark.usefixtures("kafka_cluster")
def test_the_example_for_pytest_starts_its_own_broker() -> None:
    """In this run's backend: a container when AIOPROD_KAFKA says docker."""
    ended = run("-m", "pytest", "-p", "no:cacheprovider", "examples/test_with_docker.py")
    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


async def test_fire_and_forget_loses_nothing(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    outcomes = await fire_and_forget.report(kafka_cluster.bootstrap_servers, kafka_topic, 3000)
    assert outcomes == {"stored": 3000}
    assert len(await stored(kafka_cluster, kafka_topic)) == 3000


async def test_bulk_says_where_each_row_is(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 3)
    result = await bulk.load(kafka_cluster.bootstrap_servers, topic, 2000)
    records = await stored(kafka_cluster, topic)
    assert (result.count, result.failures, len(records)) == (2000, (), 2000)
    held = Counter(record.partition for record in records)
    assert {place.partition: sum(map(len, spans)) for place, spans in result.offsets.items()} == held
    assert all(record.headers == (("source", b"crm"),) for record in records)


async def test_arrow_batches_are_stored_row_by_row(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 3)
    result = await arrow_batches.load(kafka_cluster.bootstrap_servers, topic, 12_000)
    records = await stored(kafka_cluster, topic)
    assert (result.count, result.failures, len(records)) == (12_000, (), 12_000)
    assert {record.timestamp for record in records} == {arrow_batches.START_MS + 1000 * n for n in range(12_000)}
    assert all(record.headers == (("unit", b"celsius"),) for record in records)
    assert {record.key for record in records} == {b"sensor %d" % number for number in range(20)}


async def test_the_partitioner_keeps_its_lane_free(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 4)
    customers = [b"hospital", b"florist", b"bakery", b"hospital"]
    placed = await custom_partitioner.order(kafka_cluster.bootstrap_servers, topic, customers)
    others = [1 + murmur2_partition(customer, 3) for customer in customers[1:3]]
    assert [metadata.partition for metadata in placed] == [0, *others, 0]


async def test_the_service_answers_with_the_place_of_each_order(
    kafka_cluster: KafkaCluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi_service, "TOPIC", kafka_topic)
    app = asgi_service.make_app(kafka_cluster.bootstrap_servers)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client,
    ):
        posts = (client.post(f"/orders/{number}", content=b"%d" % number) for number in range(100))
        responses = await asyncio.gather(*posts)
    assert {response.status_code for response in responses} == {201}
    by_offset = {record.offset: (record.key, record.value) for record in await stored(kafka_cluster, kafka_topic)}
    for number, response in enumerate(responses):
        assert by_offset[response.json()["offset"]] == (b"%d" % number, b"%d" % number)


# --- the code in the documentation


async def delete_topics_of(page: Path, servers: str) -> None:
    """Pages share a broker and the names of their topics: each begins without those of the page before."""
    text = page.read_text()
    async with Admin(servers) as admin:
        named = [topic for topic in await admin.topics() if f'"{topic}"' in text]
        await admin.delete_topics(named, missing_ok=True)
        while not set(named).isdisjoint(await admin.topics()):
            await asyncio.sleep(0.05)


RUNNABLE = [page for page in PAGES if any(snippet.runnable for snippet in snippets(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(kafka_cluster: KafkaCluster, kafka_topic: str, page: Path) -> None:
    servers = kafka_cluster.bootstrap_servers
    namespace: dict[str, Any] = {"__name__": "snippet"}
    with FakeSchemaRegistry() as registry, asyncio.Runner() as runner:
        runner.run(delete_topics_of(page, servers))
        producer = Producer(servers)
        runner.run(producer.start())
        try:
            for snippet in snippets(page):
                if snippet.runnable:
                    namespace["producer"] = producer
                    placed = snippet.at("localhost:9092", servers).at("http://localhost:8081", registry.url)
                    placed.run(runner, namespace)
        finally:
            runner.run(producer.close())
            assert producer.buffered == (0, 0)
    for name, test in namespace.items():
        if name.startswith("test_"):
            test(kafka_cluster, kafka_topic)


# --- the demo


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file with lines of many kinds."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"".join(b"%d \xff\r\n\n" % (number % 7) for number in range(2000)) + b"end")
    return path


@pytest.mark.needs(missing=missing_for_java)
def test_the_demo_sends_a_file_of_yours(lines: Path) -> None:
    ended = run("-m", "examples.demo", str(lines))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Every record came back once" in ended.stdout
    assert re.search(r"records read back\s+│\s+4,001", ended.stdout)


@pytest.mark.parametrize("extra", [False, True])
async def test_the_demo_fails_for_a_single_record_too_many(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, lines: Path, extra: bool
) -> None:
    servers = kafka_cluster.bootstrap_servers
    topic = await make_topic(kafka_cluster, demo.PARTITIONS)
    out = io.StringIO()
    screen = Screen(Console(file=out, width=200))
    sent = await demo.send_all(servers, topic, one_file(lines), screen)
    if extra:
        async with Producer(servers) as producer:
            await producer.send(topic, b"end", key=b"lines.txt")
    read = await demo.read_all(servers, topic, sent.digests.records, screen)
    assert demo.report(sent, read, 1.0, 1.0, screen) == extra
    assert ("lines.txt: 1 records too many" in out.getvalue()) == extra
