"""Kafka's own classes as an oracle: one JVM that answers requests, one JSON object per line."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from aioprod.testing.kafka.jars import compile_java, java, kafka_libs
from aioprod.types import Headers

__all__ = ["JavaOracle", "PartitionDigest", "TopicDigest"]

_SOURCES = Path(__file__).parent.parent / "java"


@dataclass(frozen=True, slots=True)
class TopicDigest:
    """The number of records of one partition, and their SHA-256 as hex digits."""

    count: int
    sha256: str


class PartitionDigest:
    """The checksum over the records of one partition, in the order of their offsets.

    The layout that is hashed, all integers big-endian, record after record: offset i64, timestamp i64, key, value,
    number of headers i32, then each header's name (UTF-8) and value. A key, name or value is its length as i32 (-1 for
    null) and its bytes.
    """

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._count = 0

    def add(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        self._count += 1
        self._sha256.update(struct.pack(">qq", offset, timestamp))
        self._add(key)
        self._add(value)
        self._sha256.update(struct.pack(">i", len(headers)))
        for name, header_value in headers:
            self._add(name.encode())
            self._add(header_value)

    def _add(self, data: bytes | None) -> None:
        self._sha256.update(struct.pack(">i", -1 if data is None else len(data)))
        if data is not None:
            self._sha256.update(data)

    def result(self) -> TopicDigest:
        return TopicDigest(self._count, self._sha256.hexdigest())


class JavaOracle:
    """A JVM with Kafka's jars and the programs of `integration/java`; a context manager."""

    def __init__(self) -> None:
        libs = kafka_libs()
        classes = compile_java(sorted(_SOURCES.glob("*.java")), libs)
        classpath = os.pathsep.join([str(classes), str(libs / "*")])
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            [java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, "Oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, function: str, **arguments: object) -> Any:
        """Java's answer; a RuntimeError with the Java exception, or with the JVM's log when it died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the missing answer then raises a better error
            self._process.stdin.write(json.dumps({"do": function, **arguments}) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"The JVM ended during {function}: {self._log.read().decode()[-2000:]}")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"Java can't answer {function}: {reply['error']}")
        return reply["answer"]

    def consume(
        self, bootstrap: str, topic: str, isolation: str = "read_uncommitted", timeout_s: int = 300
    ) -> Mapping[int, TopicDigest]:
        """Read a whole topic with Kafka's consumer; returns digests by partition, as `PartitionDigest` makes them."""
        answer = self.call("read_topic", bootstrap=bootstrap, topic=topic, isolation=isolation, timeout_s=timeout_s)
        return {int(partition): TopicDigest(**digest) for partition, digest in answer.items()}

    def close(self) -> None:
        """End the JVM: it exits by itself at the end of its input."""
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        finally:
            self._log.close()
