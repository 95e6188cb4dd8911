"""A kstreams engine in a process of its own: `python -m tests.support.kstreams_app PRODUCER SERVERS TOPIC TOPIC`.

kstreams looks at the types of arguments themselves, so annotations are not postponed here.
"""

import asyncio
import sys
from typing import Any

_PATIENCE_S = 60.0


async def run(producer: str, servers: str, into: str, out: str) -> None:
    """Send a record to `into`, have a stream send it on to `out`, and print what happens."""
    import kstreams
    from kstreams.backends.kafka import Kafka

    engine = kstreams.create_engine(title="app", backend=Kafka(bootstrap_servers=servers.split(",")))
    came_back: asyncio.Queue[Any] = asyncio.Queue()

    @engine.stream(into, group_id=f"{into}-group", auto_offset_reset="earliest")
    async def send_on(event: kstreams.ConsumerRecord[str, bytes], send: kstreams.Send) -> None:
        await send(out, value=(event.value or b"") + b"!", key="key", headers={"name": "value"})

    @engine.stream(out, group_id=f"{out}-group", auto_offset_reset="earliest")
    async def collect(event: kstreams.ConsumerRecord[str, bytes]) -> None:
        await came_back.put(event)

    await engine.start()
    try:
        made: Any = engine._producer
        print("producer of", "aioprod" if "aioprod" in str(type(made).__mro__) else "aiokafka")
        stored = await engine.send(into, value=b"text", key="k", partition=1, timestamp_ms=1234)
        first = [kstreams.BatchEvent(value=b"first", key="k")]
        print("batch in", [one.partition for one in await engine.send_many(out, batch_events=first, partition=1)])
        events = [kstreams.BatchEvent(value=b"%d" % number, key=str(number)) for number in range(9)]
        # Without a partition kstreams asks for those that its producer knows, so another call has to come before.
        batches = await engine.send_many(out, batch_events=events)
        print("batches in", sorted(one.partition for one in batches))
        # What the stream sends on may come between the others.
        found = []
        for _ in range(11):
            async with asyncio.timeout(_PATIENCE_S):
                found.append(await came_back.get())
        everywhere, available = made.all_partitions_for_topic(into), made.available_partitions_for_topic(into)
        print("partitions", sorted(everywhere), sorted(available))
        print(f"sent to {stored.partition} at {stored.offset}, timestamp {stored.timestamp}")
        (event,) = [one for one in found if one.headers]
        print("came back", event.value, event.key.encode(), {name: value.decode() for name, value in event.headers})
        # To the topic whose stream sends nothing: an engine stops its producer before its streams.
        await engine.send(out, value=None, key="gone")
        async with asyncio.timeout(_PATIENCE_S):
            event = await came_back.get()
        print("tombstone", event.value, event.key)
    finally:
        await engine.stop()


if __name__ == "__main__":
    if sys.argv[1] == "aioprod":
        from aioprod.compat.aiokafka import install

        install()
    asyncio.run(run(*sys.argv[1:]))
