"""Whole programs: commands that send, each measured from its start to its end by what the system says of it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks import data
from benchmarks.contenders.log_ins import librdkafka_log_in
from benchmarks.java import perf_command, perf_version
from benchmarks.job import Job, Measurement
from benchmarks.measure import SLICE

__all__ = ["measure"]

TIMEOUT_S: Final = 10.0
LIMIT_S: Final = 120.0
"""After so long a program is killed, and has failed."""
_AIOPROD: Final = (sys.executable, "-m", "aioprod")


async def measure(job: Job, meter: object) -> Measurement:
    """Run the program, and feed it lines if it reads some; raises RuntimeError if it fails or records are missing.

    Its peak memory is at least that of this process, which Linux counts until the program replaces it.
    """
    made, is_fed, version = PROGRAMS[job.call]
    command = made(job)
    consumer = Consumer({"bootstrap.servers": job.bootstrap_servers, "group.id": "-", **librdkafka_log_in(job)})
    before = _stored(consumer, job)
    with tempfile.TemporaryFile() as said:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said)
        assert process.stdin is not None
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        with process.stdin:
            for chunk in _chunks(job) if is_fed else ():
                process.stdin.write(chunk)
        _, status, used = os.wait4(process.pid, 0)
        limit.cancel()
        wall_s = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with exit status {process.returncode}: {text[-1000:]}")
    stored = _stored(consumer, job) - before
    assert stored == job.records, f"{stored} of {job.records} records were stored."
    return Measurement(
        records=job.records,
        cpu_us=round((used.ru_utime + used.ru_stime) / job.records * 1e6, 4),
        records_per_s=round(job.records / wall_s),
        peak_mb=round(used.ru_maxrss / 2**10, 1),
        settings={"command": " ".join(command[:1] if not is_fed else command[:2]).replace(sys.executable, "python")},
        versions=version(),
    )


def _stored(consumer: Consumer, job: Job) -> int:
    """Return how many records the topic has had so far."""
    ends = [
        consumer.get_watermark_offsets(TopicPartition(job.topics[0], partition), timeout=TIMEOUT_S)
        for partition in range(job.partitions)
    ]
    return sum(end for _, end in ends)


def _chunks(job: Job) -> Iterator[bytes]:
    """Yield the lines, many at a time, so that writing them takes no time from the program."""
    lines = b"".join(value + b"\n" for value in itertools.islice(data.values(job), SLICE))
    return itertools.repeat(lines, job.records // SLICE)


def _aioprod_version() -> dict[str, str]:
    import aioprod  # Not at the top: the memory of this process is a part of the program's.

    assert aioprod.COMPILED, "The compiled build is to be measured: build the modules with `make compiled`."
    return {"aioprod": aioprod.__version__}


def _kcat_version() -> dict[str, str]:
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
    _, _, version = said.partition("Version ")
    return {"kcat": version.partition(" ")[0] or "unknown"}


Made = Callable[[Job], list[str]]
PROGRAMS: Final[dict[str, tuple[Made, bool, Callable[[], dict[str, str]]]]] = {
    "aioprod_produce": (
        lambda job: [*_AIOPROD, "produce", job.topics[0], "-b", job.bootstrap_servers],
        True,
        _aioprod_version,
    ),
    "kcat": (lambda job: ["kcat", "-P", "-t", job.topics[0], "-b", job.bootstrap_servers], True, _kcat_version),
    "aioprod_perf": (
        lambda job: [
            *(*_AIOPROD, "perf", job.topics[0], "-b", job.bootstrap_servers),
            *("--records", str(job.records), "--size", str(job.value_size)),
        ],
        False,
        _aioprod_version,
    ),
    "java_perf": (
        lambda job: perf_command(job.bootstrap_servers, job.topics[0], job.records, job.value_size),
        False,
        perf_version,
    ),
}
"""Of each: its command, whether it reads lines from a pipe, and its version."""
