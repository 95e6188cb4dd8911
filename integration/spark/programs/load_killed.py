"""A load that is killed at random moments, resumed each time, and audited.

    python -m integration.spark.programs.load_killed --rows 5000000 --kills 3

It starts its own broker. Each attempt of the load is the users' command in a process of its own. Every other kill hits
only the driver's Python process, and its JVM has to notice. The status is 0 if the audit finds all rows once, in their
partitions and in order, and if an audit that expects one row too many reports it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import LoopThread, running_cluster
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from integration.spark.sessions import local_session

_TOPIC = "load-killed"
_RUN = "load-killed"
_LIMIT_S = 3600.0


def main() -> int:
    given = _arguments()
    chance = random.Random(given.seed)
    print(f"{given.rows:,} rows in {given.chunks} chunks, {given.kills} kills, seed {given.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="load-killed-") as folder,
        running_cluster(version=given.kafka, backend="local") as cluster,
    ):
        _write_input(Path(folder, "input"), given.rows, given.chunks)
        with LoopThread() as loop:
            loop.run(cluster.create_topic(_TOPIC, given.partitions))
        started = time.monotonic()
        done = 0
        for kill in range(given.kills):
            target = chance.randrange(done, max(done + 1, given.chunks - given.kills + kill))
            delay_s = chance.random() * given.spread_s
            only_driver = kill % 2 == 0
            done = _life(cluster, folder, given.chunks, target, delay_s, only_driver)
        if _command(cluster, folder, "load") != 0:
            return 1
        print(f"loaded in {time.monotonic() - started:.0f} s, all lives together", flush=True)
        _tell(Path(folder, "load.json"))
        started = time.monotonic()
        status = _command(cluster, folder, "audit")
        print(f"audited in {time.monotonic() - started:.0f} s", flush=True)
        if given.copy_report:
            Path(given.copy_report).write_bytes(Path(folder, "audit.html").read_bytes())
        return status


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=12)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--spread-s", type=float, default=8.0, help="a kill comes so long after a chunk at most")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kafka", default=DEFAULT_VERSION)
    parser.add_argument("--copy-report", metavar="FILE.html")
    return parser.parse_args()


def _write_input(path: Path, rows: int, files: int) -> None:
    spark = local_session()
    frame = spark.range(0, rows, 1, files).selectExpr(
        "id", "concat('customer-', id % 100003) as customer", "repeat(md5(cast(id as string)), 3) as text"
    )
    frame.write.parquet(str(path))
    spark.stop()


def _words(cluster: KafkaCluster, folder: str, job: str) -> list[str]:
    words = [job, "--topic", _TOPIC, "--bootstrap-servers", cluster.bootstrap_servers]
    words += ["--manifest", f"{folder}/manifest", "--json", f"{folder}/{job}.json"]
    if job == "audit":
        return [*words, "--report", f"{folder}/audit.html"]
    words += ["--from", f"parquet:{folder}/input", "--key", "customer", "--value", "text", "--run-id", _RUN]
    files = len(list(Path(folder, "input").glob("*.parquet")))
    return [*words, "--order-by", "id", "--resume", "--chunks", str(files)]


def _start(cluster: KafkaCluster, folder: str, job: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "aioprod.spark", *_words(cluster, folder, job)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def _command(cluster: KafkaCluster, folder: str, job: str) -> int:
    process = _start(cluster, folder, job)
    _, said = process.communicate(timeout=_LIMIT_S)
    if process.returncode:
        print(said, flush=True)
    return process.returncode


def _life(cluster: KafkaCluster, folder: str, chunks: int, target: int, delay_s: float, only_driver: bool) -> int:
    """Run the load, kill it some time after chunk `target` was told of, by the next one at the latest; returns how many
    were."""
    process = _start(cluster, folder, "load")
    assert process.stderr is not None
    told = _Told(process.stderr, target)
    reached = told.reached.wait(_LIMIT_S)
    began = time.monotonic()
    told.passed.wait(delay_s)
    delay_s = time.monotonic() - began
    if process.poll() is not None:
        print(f"the load was over before it could be killed: {told.lines[-3:]}", flush=True)
        return chunks
    if only_driver:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = _chunks_in_manifest(folder)
    what = "driver" if only_driver else "driver, JVM and workers"
    print(f"killed ({what}) {delay_s:.1f} s after chunk {told.count} of {chunks}: {done} in the manifest", flush=True)
    assert reached
    return done


class _Told:
    """Reads what the load says; `reached` once it has told of `target` chunks, `passed` once of more; or it is over."""

    def __init__(self, stream: IO[str], target: int) -> None:
        self.reached = threading.Event()
        self.passed = threading.Event()
        self.count = 0
        self.lines: list[str] = []
        self._stream = stream
        self._target = target
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        if self._target == 0:
            self.reached.set()
        for line in self._stream:
            self.lines.append(line.rstrip())
            self.count += line.startswith("chunk ")
            if self.count >= self._target:
                self.reached.set()
            if self.count > self._target:
                self.passed.set()
        self.reached.set()
        self.passed.set()


def _chunks_in_manifest(folder: str) -> int:
    path = Path(folder, "manifest", "manifest.json")
    return len(json.loads(path.read_text())["chunks"]) if path.exists() else 0


def _tell(path: Path) -> None:
    report = json.loads(path.read_text())
    print(
        f"last life: {report['chunks']['done']} chunks written, {report['chunks']['skipped']} skipped, "
        f"{report['all_rows']:,} rows in all, {report['attempts']} attempts",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
