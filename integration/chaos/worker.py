"""The load: a process whose producers send to every partition without a pause, and that records the outcomes.

The topic without replicas has a producer of its own. On a shared connection its responses would wait behind those of
partitions whose leader waits for a dead replica, as brokers answer requests in order.

Run it with one argument, a `Job` as JSON. It prints "ready" when each partition has stored a record, and sends until it
reads a line. Then it waits for in-flight records and for what is found out about unknown ones, and writes its ledger.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from integration.chaos.clients import CLIENTS, Client, FindOut, RefusedError
from integration.chaos.ledger import Gap, Ledger, Outcome, Place, value_of
from integration.chaos.modes import DOOMED, SOLO
from integration.chaos.resolving import BytesRead, Resolving

__all__ = ["Job", "main"]

BURST: Final = 5
PAUSE_S: Final = 0.04
_REFUSED_PAUSE_S: Final = 0.2
_GAP_POLL_S: Final = 0.01
_GAP_MIN_S: Final = 0.05
_CLOSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Job:
    """What the process is told; `patience_s` is how long it waits for outcomes after its last record."""

    client: str
    settings: dict[str, Any]
    bootstrap_servers: str
    topics: dict[str, int]
    patience_s: float
    ledger: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Load:
    """The senders of all partitions."""

    def __init__(self, clients: Sequence[Client], job: Job) -> None:
        self._clients = clients
        self._places = [Place(topic, index) for topic, count in job.topics.items() for index in range(count)]
        self._random = random.Random(1)
        self._stopping = False
        self.ledger = Ledger()
        self._resolving = Resolving(self.ledger)

    async def run(self, job: Job) -> None:
        """Send until a line comes in; "ready" is said on the way."""
        watching = asyncio.create_task(self._watch_loop())
        sending = [asyncio.create_task(self._send_to(place)) for place in self._places]
        await self._all_reached()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        self._stopping = True
        # A call that never returns is a record that was never told, and no reason to lose the rest.
        ended, _ = await asyncio.wait(sending, timeout=job.patience_s)
        await self._flush(job)
        for place in self._resolving.places():
            await self._send(place)
        await self._flush(job)
        await self._resolving.end()
        watching.cancel()
        for task in ended:
            task.result()

    async def _flush(self, job: Job) -> None:
        await asyncio.gather(*(client.flush(job.patience_s) for client in self._clients))

    async def _all_reached(self) -> None:
        waiting = set(self._places)
        while waiting:
            await asyncio.sleep(_GAP_POLL_S)
            records = self.ledger.records
            waiting -= {p for p in waiting if any(told.outcome is Outcome.DELIVERED for told in records[p])}

    async def _send_to(self, place: Place) -> None:
        failed = False
        while not self._stopping and not (failed and place.topic == DOOMED):
            refused = False
            for _ in range(BURST):
                refused |= not await self._send(place)
            if place.topic == DOOMED:
                failed = any(told.outcome not in _GOING_ON for told in self.ledger.records[place][-50 * BURST :])
            await asyncio.sleep(_REFUSED_PAUSE_S if refused else PAUSE_S * (0.5 + self._random.random()))

    async def _send(self, place: Place) -> bool:
        sequence = self.ledger.new(place, time.monotonic())
        try:
            await self._clients[place.topic == SOLO].send(
                *place, value_of(sequence), partial(self._tell, place, sequence)
            )
        except RefusedError as error:
            self.ledger.tell(place, sequence, time.monotonic(), Outcome.REFUSED, error=str(error))
            return False
        return True

    def _tell(
        self,
        place: Place,
        sequence: int,
        outcome: Outcome,
        offset: int,
        error: str,
        find_out: FindOut | None = None,
    ) -> None:
        self.ledger.tell(place, sequence, time.monotonic(), outcome, offset, error)
        if find_out is not None:
            self._resolving.begin(place, sequence, find_out)

    async def _watch_loop(self) -> None:
        """Note when the loop was away, and how much of that time this process has worked: the rest is the machine's."""
        while True:
            before, worked_s = time.monotonic(), time.process_time()
            await asyncio.sleep(_GAP_POLL_S)
            after = time.monotonic()
            if after - before > _GAP_MIN_S:
                self.ledger.gaps.append(Gap(before, after, time.process_time() - worked_s))


_GOING_ON = (Outcome.DELIVERED, Outcome.SILENT)


async def main(job: Job) -> None:
    for name in ("aiokafka", "aioprod"):  # they tell of trouble, of which there is plenty
        logging.getLogger(name).setLevel(logging.CRITICAL)
    clients = [CLIENTS[job.client](job.bootstrap_servers, job.settings) for _ in range(2)]
    for client in clients:
        await client.start()
    print(json.dumps(clients[0].versions()), flush=True)
    load = Load(clients, job)
    BytesRead(load.ledger.bytes_read).listen()
    await load.run(job)
    load.ledger.write(Path(job.ledger))
    with suppress(Exception):  # what closing does to the rest is not what is asked here
        async with asyncio.timeout(_CLOSE_S):
            await asyncio.gather(*(client.close() for client in clients))


if __name__ == "__main__":
    asyncio.run(main(Job(**json.loads(sys.argv[1]))))
    os._exit(0)  # threads of a client that hangs must not hold up the end
