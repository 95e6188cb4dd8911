"""One client under a load, in a process of its own: `python -m aioprod.cli.perf.contender` with a job on stdin.

The job is a JSON document: the client, the options of the connection and the load. The figures are one on stdout. Each
client sends one record before, which does not count: connections are not what is compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from importlib import metadata
from typing import Any, Final

from aioprod._build import COMPILED
from aioprod.cli.connection import config_of
from aioprod.cli.perf.load import Load, Pace, Payload
from aioprod.cli.perf.meter import LoopGap, Meter
from aioprod.cli.perf.peers import settings_of_peer
from aioprod.cli.running import fast_loop
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError

__all__ = ["main"]

_SLICE: Final = 500
_POLL_S: Final = 0.001
_PACKAGES: Final = {"aioprod": "aioprod", "confluent": "confluent-kafka", "aiokafka": "aiokafka"}


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(work)


def _aioprod(config: ProducerConfig, load: Load, payload: Payload, meter: Meter) -> None:
    from aioprod.cli.perf.sending import send_load

    _run(send_load(config, load, payload, meter, first=True))


def _confluent(config: ProducerConfig, load: Load, payload: Payload, meter: Meter) -> None:
    """`produce` with a callback, as it is documented to be used; its threads send."""
    from confluent_kafka import KafkaException, Producer

    producer = Producer(settings_of_peer("confluent", config))
    producer.list_topics(load.topic, timeout=60)
    producer.produce(load.topic, b"")
    producer.flush()

    def done(start: float, size: int, error: Any, message: Any) -> None:
        if error is None:
            meter.note(start, size)
        else:
            meter.note_failed(KafkaException(error))

    meter.begin()
    pace = Pace(load, meter.began)
    while not pace.is_over(now := meter.clock()):
        for key, value in payload.pairs(pace.take(now, _SLICE)):
            delivered = partial(done, meter.clock(), len(value) + len(key or b""))
            while True:
                try:
                    producer.produce(load.topic, value, key, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(_POLL_S)
        producer.poll(min(pace.wait_s(meter.clock()), _POLL_S))
    producer.flush()
    meter.end()


def _aiokafka(config: ProducerConfig, load: Load, payload: Payload, meter: Meter) -> None:
    _run(_send_by_aiokafka(config, load, payload, meter))


async def _send_by_aiokafka(config: ProducerConfig, load: Load, payload: Payload, meter: Meter) -> None:
    """`await send`, whose futures have the outcomes."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**settings_of_peer("aiokafka", config))
    await producer.start()

    def done(start: float, size: int, future: asyncio.Future[Any]) -> None:
        error = future.exception()
        if error is None:
            meter.note(start, size)
        else:
            meter.note_failed(error)

    try:
        await producer.send_and_wait(load.topic, b"")
        gap = LoopGap()
        meter.begin()
        pace = Pace(load, meter.began)
        while not pace.is_over(now := meter.clock()):
            for key, value in payload.pairs(pace.take(now, _SLICE)):
                start = meter.clock()
                future = await producer.send(load.topic, value, key)
                future.add_done_callback(partial(done, start, len(value) + len(key or b"")))
            await asyncio.sleep(pace.wait_s(meter.clock()))
        await producer.flush()
        await asyncio.sleep(0)  # The last callbacks are called in the next turn of the loop.
        meter.gap_ms = gap.stop()
        meter.end()
    finally:
        await producer.stop()


_CLIENTS: Final[Mapping[str, Callable[[ProducerConfig, Load, Payload, Meter], None]]] = {
    "aioprod": _aioprod,
    "confluent": _confluent,
    "aiokafka": _aiokafka,
}


def main(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a job; returns the figures."""
    from aioprod.cli.perf.command import defaults

    load = Load(**job["load"])
    with contextlib.redirect_stderr(io.StringIO()):  # A secret in the arguments was warned of already.
        config = config_of(Namespace(**job["connection"]), ProducerConfig, defaults(e2e=False))
    meter = Meter()
    _CLIENTS[job["client"]](config, load, Payload(load), meter)
    version = metadata.version(_PACKAGES[job["client"]])
    if job["client"] == "aioprod" and not COMPILED:
        version += " interpreted"
    return meter.document() | {"version": version}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(main(json.load(sys.stdin))))
    except AioprodError as error:
        sys.exit(error.message)
