"""Fetching jars by their coordinates, from a repository on loopback: which ones, and what may go wrong on the way."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path

import pytest
from jgo.constants import MAVEN_CENTRAL_URL

from aioprod.testing import KafkaUnavailableError
from aioprod.testing.kafka import maven
from aioprod.testing.kafka.cache import log_progress
from tests.support.maven_repository import MavenRepository

KAFKA = ("org.apache.kafka", "kafka_2.13", "4.4.0")
JAR = "org/apache/kafka/kafka_2.13/4.4.0/kafka_2.13-4.4.0.jar"
POM = JAR.replace(".jar", ".pom")


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "_WAIT_S", 0.0)


def fetched(folder: Path, *, transitive: bool = True) -> set[str]:
    """What `fetch_jars` of Kafka leaves in `folder`."""
    maven.fetch_jars([KAFKA], folder, log_progress, transitive=transitive)
    return {path.name for path in folder.iterdir()}


def test_dependencies_are_fetched_in_the_versions_that_maven_chooses(
    repository: MavenRepository, tmp_path: Path
) -> None:
    """The nearest to the root, then the first; managed versions, parents, properties, scopes, optional ones."""
    repository.add(":".join(KAFKA), "a:near:${near}:runtime", "a:first:1", "a:second:1", parent="a:parent:1")
    repository.add("a:parent:1", properties="<near>1.0</near>", managed=("a:managed:7", "a:bom:1:import"), jar=False)
    repository.add("a:bom:1", managed=("a:listed:9",), jar=False)
    repository.add("a:near:1.0", "a:listed:1:runtime")
    repository.add("a:first:1", "a:near:2.0", "a:deep:1", "a:managed:1", "a:tests:1:test", "a:given:1:provided")
    repository.add("a:second:1", "a:deep:2", "a:maybe:1:optional")
    for leaf in ("a:deep:1", "a:managed:1", "a:listed:1"):
        repository.add(leaf)
    assert fetched(tmp_path) == {
        "kafka_2.13-4.4.0.jar",
        "near-1.0.jar",
        "first-1.jar",
        "second-1.jar",
        "deep-1.jar",
        "managed-1.jar",
        "listed-1.jar",
    }
    assert (tmp_path / "near-1.0.jar").read_bytes() == b"jar of a:near:1.0"


def test_without_dependencies_only_the_jars_are_fetched(repository: MavenRepository, tmp_path: Path) -> None:
    repository.add(":".join(KAFKA), "a:other:1")
    assert fetched(tmp_path, transitive=False) == {"kafka_2.13-4.4.0.jar"}


@pytest.mark.parametrize("path", [POM, JAR, f"{JAR}.sha1"])
def test_dropped_connections_and_busy_servers_are_retried(
    path: str, repository: MavenRepository, tmp_path: Path
) -> None:
    repository.add(":".join(KAFKA))
    repository.cut[path] = 2
    repository.unavailable[path] = 2
    assert fetched(tmp_path) == {"kafka_2.13-4.4.0.jar"}
    assert (tmp_path / "kafka_2.13-4.4.0.jar").read_bytes() == b"jar of org.apache.kafka:kafka_2.13:4.4.0"
    assert [path_requested.removeprefix("/m2/") for path_requested in repository.requested].count(path) == 5


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("cut", "IncompleteRead"), ("unavailable", "the server answers 503 Service Unavailable.")],
)
@pytest.mark.parametrize("path", [POM, "a/b/1/b-1.pom", "a/b/1/b-1.jar"])
def test_the_error_names_a_file_that_can_not_be_fetched(
    fault: str, reason: str, path: str, repository: MavenRepository, tmp_path: Path
) -> None:
    """Also for the POM of a dependency: unknown dependencies are not none."""
    repository.add(":".join(KAFKA), "a:b:1")
    repository.add("a:b:1")
    getattr(repository, fault)[path] = 1000
    with pytest.raises(KafkaUnavailableError, match=rf"The jars of kafka_2.13 4.4.0 could not be .*{path}.*{reason}"):
        fetched(tmp_path)


@pytest.mark.parametrize("path", ["a/b/1/b-1.pom", "a/b/1/b-1.jar", "a/b/1/b-1.jar.sha1"])
def test_the_error_names_a_missing_file(path: str, repository: MavenRepository, tmp_path: Path) -> None:
    repository.add(":".join(KAFKA), "a:b:1")
    repository.add("a:b:1")
    del repository.files[path]
    with pytest.raises(KafkaUnavailableError, match=rf"{path}: the server answers 404 Not Found\. Hint: Let this"):
        fetched(tmp_path)


@pytest.mark.parametrize("path", [POM, JAR])
def test_a_wrong_checksum_raises(path: str, repository: MavenRepository, tmp_path: Path) -> None:
    repository.add(":".join(KAFKA))
    repository.files[path] += b" "
    with pytest.raises(KafkaUnavailableError, match=rf"{path}: its checksum is not the one in the \.sha1 file"):
        fetched(tmp_path)


def test_a_listed_file_is_compared_with_its_sha256_whatever_the_repository_says(
    repository: MavenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A POM, too: it says what else is fetched."""
    repository.add(":".join(KAFKA))
    digests = {path: hashlib.sha256(repository.files[path]).hexdigest() for path in (JAR, POM)}
    monkeypatch.setattr(maven, "listed", lambda: digests)
    assert fetched(tmp_path) == {"kafka_2.13-4.4.0.jar"}
    assert not [path for path in repository.requested if path.endswith(".sha1")]
    for path in (JAR, POM):
        content = repository.files[path]
        repository.put(path, content + b" ")
        with pytest.raises(KafkaUnavailableError, match=rf"{path}: its SHA-256 is not the one that aioprod has for it"):
            fetched(tmp_path)
        repository.put(path, content)


def test_a_checksum_may_name_its_file(repository: MavenRepository, tmp_path: Path) -> None:
    repository.add(":".join(KAFKA))
    repository.files[f"{JAR}.sha1"] = repository.files[f"{JAR}.sha1"].upper() + b"  kafka_2.13-4.4.0.jar\n"
    assert fetched(tmp_path) == {"kafka_2.13-4.4.0.jar"}


def test_no_server_answers(repository: MavenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPROD_MAVEN_REPOSITORY", "http://127.0.0.1:1/m2")
    with pytest.raises(KafkaUnavailableError, match=rf"http://127\.0\.0\.1:1/m2/{POM}: .*refused"):
        fetched(tmp_path)


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("AIOPROD_MAVEN_REPOSITORY", "https://user:secret@mirror:70000"),
        ("http_proxy", "socks5://127.0.0.1:1"),
        ("http_proxy", "//["),
    ],
)
def test_an_invalid_address(
    variable: str, address: str, repository: MavenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv(variable, address)
    with pytest.raises(KafkaUnavailableError, match=r"^The jars of kafka_2.13 4.4.0 could not be fetched: ") as caught:
        fetched(tmp_path)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_mirror_may_require_user_and_password(
    repository: MavenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.add(":".join(KAFKA))
    monkeypatch.setenv("AIOPROD_MAVEN_REPOSITORY", repository.address.replace("//", "//ann:p%40ss@") + "/")
    assert fetched(tmp_path) == {"kafka_2.13-4.4.0.jar"}
    assert repository.authorizations == {(f"Basic {base64.b64encode(b'ann:p@ss').decode()}", None)}
    del repository.files[JAR]
    with pytest.raises(KafkaUnavailableError) as caught:
        fetched(tmp_path)
    assert "ss@" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_proxy_of_the_environment_is_used(
    scheme: str, repository: MavenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.add(":".join(KAFKA))
    proxy = repository.address.removeprefix("http://").removesuffix("/m2")
    monkeypatch.setenv("AIOPROD_MAVEN_REPOSITORY", "http://maven.invalid/m2")
    monkeypatch.setenv("http_proxy", f"{scheme}ann:pass@{proxy}")
    assert fetched(tmp_path) == {"kafka_2.13-4.4.0.jar"}
    assert f"http://maven.invalid/m2/{JAR}" in repository.requested
    assert repository.authorizations == {(None, f"Basic {base64.b64encode(b'ann:pass').decode()}")}


def test_a_host_that_needs_no_proxy(
    repository: MavenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.add(":".join(KAFKA))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert fetched(tmp_path) == {"kafka_2.13-4.4.0.jar"}


def test_without_a_mirror_it_is_the_public_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requested: list[str] = []
    monkeypatch.delenv("AIOPROD_MAVEN_REPOSITORY", raising=False)

    def fetch(repository: maven.Repository, path: str) -> bytes:
        requested.append(f"{repository.address}/{path}")
        return b""

    monkeypatch.setattr(maven.Repository, "fetch", fetch)
    fetched(tmp_path, transitive=False)
    assert requested == [f"{MAVEN_CENTRAL_URL}/{JAR}"]


def test_without_jgo_its_extra_is_named(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    from aioprod.testing.kafka import jars

    monkeypatch.delitem(sys.modules, "aioprod.testing.kafka.maven")
    monkeypatch.setitem(sys.modules, "jgo.constants", None)
    with pytest.raises(KafkaUnavailableError, match=r"(?s)jgo.* is not installed.*aioprod\[testing\]"):
        jars.kafka_libs()
