"""confluent-kafka's `Producer`: librdkafka's threads do the sending, `poll` calls the callbacks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib import metadata
from itertools import islice
from typing import Any

from confluent_kafka import Producer, libversion

from benchmarks import data
from benchmarks.contenders.log_ins import librdkafka_log_in
from benchmarks.job import Job, Measurement
from benchmarks.measure import ROUND, SLICE, Meter, Tally
from benchmarks.threads import in_threads

__all__ = ["measure", "settings", "versions"]

Call = Callable[[Any, Job, int, Tally], None]
FULL_S = 0.01
"""How long to wait for acknowledgements when librdkafka's queue is full."""


def settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings except its address.

    Its queue holds a million records, so that their number is no limit; keys have the same partitions as with Java.
    """
    given = {
        "acks": "all",
        "linger.ms": job.linger_ms,
        "batch.size": job.batch_size,
        "compression.type": job.compression,
        "compression.level": job.gzip_level,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": None if job.buffer_memory is None else job.buffer_memory // 1024,
        "partitioner": "murmur2_random" if job.keyed else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def versions() -> dict[str, str]:
    """Return the versions of the binding and of librdkafka."""
    return {"confluent-kafka": metadata.version("confluent-kafka"), "librdkafka": libversion()[0]}


async def measure(job: Job, meter: Meter) -> Measurement:
    """Run the job. It does not use the running loop, and blocks it until it is done."""
    call = CALLS[job.call]
    address = {"bootstrap.servers": job.bootstrap_servers, **librdkafka_log_in(job)}
    producer = Producer({**address, **settings(job)})
    producer.list_topics(job.topics[0], timeout=10)
    call(producer, job, job.warm_up, Tally())
    tally = Tally()
    meter.start()
    call(producer, job, job.records, tally)
    return meter.measurement(job, tally, None, settings(job) | {"enable.idempotence": False}, versions())


def _produce(producer: Any, job: Job, count: int, tally: Tally) -> None:
    topic = job.topics[0]
    stream = data.values(job)
    counted = tally.on_message
    for _ in range(count // SLICE):
        callback = tally.timed(counted)
        for value in islice(stream, SLICE):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=callback)
                    break
                except BufferError:
                    producer.poll(FULL_S)
            callback = counted
        producer.poll(0)
    producer.flush()


def _produce_in_threads(producer: Any, job: Job, count: int, tally: Tally) -> None:
    """Produce in threads while another one polls, which costs less than when each of them does."""
    topic = job.topics[0]
    counted = tally.on_message
    ends = threading.Event()

    def poll() -> None:
        while not ends.is_set():
            producer.poll(0.1)

    def work(share: int) -> None:
        for value in islice(data.values(job), share):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=counted)
                    break
                except BufferError:
                    time.sleep(FULL_S)

    polling = threading.Thread(target=poll)
    polling.start()
    in_threads(work, count)
    ends.set()
    polling.join()
    producer.flush()


def _produce_keyed(producer: Any, job: Job, count: int, tally: Tally) -> None:
    topic = job.topics[0]
    stream = data.pairs(job)
    counted = tally.on_message
    for _ in range(count // SLICE):
        callback = tally.timed(counted)
        for key, value in islice(stream, SLICE):
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=callback)
                    break
                except BufferError:
                    producer.poll(FULL_S)
            callback = counted
        producer.poll(0)
    producer.flush()


def _produce_batch(producer: Any, job: Job, count: int, tally: Tally) -> None:
    """Send batches of the same dictionaries; a program that gets its values one by one would create them each time."""
    messages = [
        {"key": key, "value": value} if job.keyed else {"value": value} for key, value in islice(data.pairs(job), ROUND)
    ]
    for _ in range(count // ROUND):
        taken = producer.produce_batch(job.topics[0], messages, on_delivery=tally.on_message)
        assert taken == ROUND
        producer.poll(0)
    producer.flush()


CALLS: dict[str, Call] = {
    "produce": _produce,
    "produce_in_threads": _produce_in_threads,
    "produce_keyed": _produce_keyed,
    "produce_batch": _produce_batch,
}
