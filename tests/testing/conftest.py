"""A machine on which `java` is a stand-in and Kafka's jars are there: nothing is fetched, no broker is real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aioprod.testing.kafka.archive import archive_folder
from tests.support import stand_in_java
from tests.support.maven_repository import MavenRepository

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and none of the caller's own settings."""
    for name in ("AIOPROD_KAFKA", "AIOPROD_KAFKA_IMAGE", "AIOPROD_MAVEN_REPOSITORY", *PROXIES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIOPROD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def repository(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MavenRepository]:
    """The Maven repository of this machine; it has nothing yet, and no file of it is listed by its SHA-256."""
    monkeypatch.setattr("aioprod.testing.kafka.maven.listed", dict)
    repository = MavenRepository()
    with repository.serving():
        monkeypatch.setenv("AIOPROD_MAVEN_REPOSITORY", repository.address)
        yield repository


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JAVA_HOME without a compiler, whose java is the stand-in."""
    home = stand_in_java.install(tmp_path / "java")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


@pytest.fixture
def local_kafka(cache: Path, java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that the local backend needs; Java makes no archives. Gives the folder in which it makes its own."""
    for version in ("4.4.0", "3.9.1"):
        libs = cache / f"kafka-{version}"
        libs.mkdir(parents=True)
        archive_folder(java_home / "bin" / "java", libs).mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("AIOPROD_KAFKA", "local")
    return temporary
