"""A zombie process of a task: it writes in its transaction, freezes, and tries again when it is thawed.

    python -m integration.spark.programs.zombie HEX

HEX is the pickled handle with the producer's settings, topic, partition, and the file for the result of the second
attempt.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from pathlib import Path

from aioprod import TransactionHandle
from aioprod.errors import AioprodError
from aioprod.spark.options import KafkaSettings
from integration.spark.faulty import freeze

__all__: list[str] = []


async def main(handle: TransactionHandle, settings: dict[str, str], topic: str, partition: int, heard: str) -> None:
    options = KafkaSettings(settings).producer()
    options.pop("transaction_timeout_ms", None)
    async with handle.producer(**options) as producer:
        try:
            # Where the task's own producer wrote before us this is rejected: it is the second writer of a partition.
            await producer.send(topic, b"zombie", partition=partition)
        except AioprodError as error:
            print(error, file=sys.stderr)
    async with handle.producer(**options) as producer:
        freeze()
        try:
            await producer.send(topic, b"zombie", partition=partition)
        except AioprodError as error:
            told = f"{type(error).__name__}: {error}"
        else:
            told = "stored"
    scratch = Path(heard).with_suffix(".part")
    scratch.write_text(told)
    scratch.rename(heard)


if __name__ == "__main__":
    asyncio.run(main(*pickle.loads(bytes.fromhex(sys.argv[1]))))
