"""librdkafka's mock cluster in its own process: an independent implementation of brokers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SERVE = """
import sys
from confluent_kafka import Producer

options = {"bootstrap.servers": "replaced by the mock", "test.mock.num.brokers": int(sys.argv[1]), "log_level": 2}
client = Producer(options)
brokers = client.list_topics(timeout=30).brokers.values()
print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def mock_cluster(brokers: int = 1) -> AsyncIterator[str]:
    """The `bootstrap.servers` of a mock cluster, which ends with the context; its topics have 4 partitions."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, str(brokers), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.communicate()
