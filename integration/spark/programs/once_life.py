"""A driver that writes a stream to Kafka exactly once, with faults.

    python -m integration.spark.programs.once_life JSON

The stream is that of `once_stream`. At its end it prints what happened as JSON. It dies with status 9 if a fault says
so, and returns 3 if its query failed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from integration.spark.faulty import Faults, break_driver
from integration.spark.once_stream import Life, one_life
from integration.spark.sessions import local_session

__all__: list[str] = []


def die(point: str) -> None:
    print(f"died: {point}", flush=True)
    os._exit(9)


def main(given: str) -> int:
    life = Life(**json.loads(given))
    break_driver(Faults(Path(life.faults)), die)
    spark = local_session(life.master, **life.config)
    ended = one_life(spark, life, die)
    print(json.dumps(ended.__dict__), flush=True)
    # Not by the way of Python: what is left of the session may take seconds.
    spark.stop()
    os._exit(3 if ended.failure else 0)


if __name__ == "__main__":
    main(sys.argv[1])
