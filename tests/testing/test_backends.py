"""Which backend is chosen, and the docker backend over a stand-in for Testcontainers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from aioprod.errors import ConfigError
from aioprod.testing import KafkaStartError, KafkaUnavailableError
from aioprod.testing.kafka.backends import DockerBackend, LocalBackend, Plan, choose_backend
from aioprod.testing.kafka.broker_properties import Ports
from aioprod.testing.kafka.docker import docker_problem, image_name
from tests.support.maven_repository import MavenRepository

PLAN = Plan({1: Ports(1001, 1002, 1003)}, {1: 1001}, {"broker.rack": "a"}, cluster_id="cluster")


def test_racks() -> None:
    """Each node has its own, and one without a rack names no followers."""
    ports = dict.fromkeys((1, 2, 3), Ports(1001, 1002, 1003))
    plan = Plan(ports, dict.fromkeys(ports, 1001), {}, racks=("a", None, "b"))
    settings = [plan.node_properties(node_id, "/data") for node_id in ports]
    assert [one.get("broker.rack") for one in settings] == ["a", None, "b"]
    assert ["replica.selector.class" in one for one in settings] == [True, False, True]


class Engine:
    """What a Docker engine knows: images and containers by name."""

    def __init__(self) -> None:
        self.answers = True
        self.pause_errors: list[str] = []
        self.images = {"apache/kafka:4.4.0"}
        self.containers: dict[str, Container] = {}
        self.calls: list[str] = []


class Container:
    """A container as docker-py shows it."""

    def __init__(self, engine: Engine, arguments: dict[str, Any]) -> None:
        self.engine = engine
        self.arguments = arguments
        self.id = f"id-{arguments['name']}"
        self.status = "created"
        engine.containers[self.id] = self

    def __getattr__(self, name: str) -> Any:
        statuses = {
            "start": "running",
            "kill": "exited",
            "stop": "exited",
            "pause": "paused",
            "unpause": "running",
            "remove": "removed",
            "wait": self.status,
        }
        if name not in statuses:
            raise AttributeError(name)

        def call(**_: object) -> None:
            self.engine.calls.append(name)
            if name == "pause" and self.engine.pause_errors:
                raise RuntimeError(self.engine.pause_errors.pop())
            self.status = statuses[name]
            if name == "remove":
                del self.engine.containers[self.id]

        return call

    def reload(self) -> None:
        if self.id not in self.engine.containers:
            raise LookupError("no such container")

    def logs(self, tail: int) -> bytes:
        return f"the last {tail} lines".encode()


class DockerContainer:
    """Testcontainers' builder; what is built is kept in `engine`."""

    engine: Engine

    def __init__(self, image: str) -> None:
        self.arguments: dict[str, Any] = {"image": image, "env": {}}

    def with_name(self, name: str) -> Self:
        self.arguments["name"] = name
        return self

    def with_env(self, name: str, value: str) -> Self:
        self.arguments["env"][name] = value
        return self

    def with_command(self, command: list[str]) -> Self:
        self.arguments["command"] = command
        return self

    def with_kwargs(self, **arguments: object) -> Self:
        self.arguments.update(arguments)
        return self

    def start(self) -> Self:
        if self.arguments["image"] not in self.engine.images:
            raise LookupError("no such image")
        return self

    def get_wrapped_container(self) -> Container:
        container = Container(self.engine, self.arguments)
        container.start()
        return container


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A Docker engine that has Apache's image of 4.4.0."""
    engine = Engine()

    class DockerClient:
        def __init__(self, timeout: float) -> None:
            if not engine.answers:
                raise ConnectionRefusedError("no listener at /var/run/docker.sock")
            self.client = SimpleNamespace(images=self, close=lambda: None)

        def get(self, image: str) -> None:
            if image not in engine.images:
                raise LookupError("not found")

    monkeypatch.setattr(DockerContainer, "engine", engine, raising=False)
    monkeypatch.setattr("testcontainers.core.docker_client.DockerClient", DockerClient)
    monkeypatch.setattr("testcontainers.core.container.DockerContainer", DockerContainer)
    return engine


def chosen(wanted: Any = "auto", version: str = "4.4.0") -> str:
    backend = choose_backend(wanted, version, None)
    assert not isinstance(backend, tuple)
    backend.close()
    return backend.name


def test_the_image_is_apaches_or_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOPROD_KAFKA_IMAGE", raising=False)
    assert image_name("4.4.0") == "apache/kafka:4.4.0"
    monkeypatch.setenv("AIOPROD_KAFKA_IMAGE", "mine/kafka:{version}-jre")
    assert image_name("4.4.0") == "mine/kafka:4.4.0-jre"


def test_auto_uses_docker_when_it_has_the_image(
    engine: Engine, local_kafka: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOPROD_KAFKA", "auto")
    assert chosen() == "docker"
    assert chosen(version="3.9.1") == "local"
    engine.answers = False
    assert chosen() == "local"


def test_the_argument_overrides_the_environment_which_overrides_detection(
    engine: Engine, local_kafka: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen() == "local"
    assert chosen("docker") == "docker"
    monkeypatch.setenv("AIOPROD_KAFKA", " docker ")
    assert chosen() == "docker"
    assert chosen("local") == "local"


def test_what_is_wrong_with_docker(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert docker_problem("apache/kafka:4.4.0") is None
    assert docker_problem("other") == "the Docker engine has no image other (not found)"
    engine.answers = False
    assert docker_problem("other") == "no Docker engine answers (no listener at /var/run/docker.sock)"
    monkeypatch.setitem(sys.modules, "testcontainers.core.docker_client", None)
    assert docker_problem("other") == "the Python package testcontainers is not installed"


def test_docker_must_answer_when_it_is_requested(engine: Engine) -> None:
    assert docker_problem(None) is None
    engine.answers = False
    with pytest.raises(KafkaUnavailableError, match="The backend is docker, but no Docker engine answers"):
        choose_backend("docker", "4.4.0", None)


def test_the_error_without_docker_and_java_has_both_reasons(
    engine: Engine, java_home: Path, repository: MavenRepository
) -> None:
    engine.answers = False
    with pytest.raises(KafkaUnavailableError, match=r"No Docker: no Docker engine.* No local Kafka: The jars of kafka"):
        choose_backend("auto", "0.0", None)


@pytest.mark.parametrize(
    ("value", "addresses"),
    [("localhost:9092", ("localhost:9092",)), ("a:1, [::1]:2,", ("a:1", "[::1]:2"))],
)
def test_addresses_of_a_given_cluster(value: str, addresses: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPROD_KAFKA", value)
    assert choose_backend("auto", "4.4.0", None) == addresses


@pytest.mark.parametrize("value", ["podman", "", "host:port", "host"])
def test_an_invalid_value(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPROD_KAFKA", value)
    with pytest.raises(ConfigError, match="it must be auto, docker, local or host:port"):
        choose_backend("auto", "4.4.0", None)


def test_a_container_gets_its_settings_and_the_hosts_network(engine: Engine) -> None:
    backend = DockerBackend("apache/kafka:4.4.0")
    node = backend.node(1, PLAN)
    assert (node.alive(), node.log()) == (False, "")
    node.start()
    (container,) = engine.containers.values()
    arguments = container.arguments
    assert arguments["network_mode"] == "host"
    assert arguments["entrypoint"] == ["sh"]
    assert arguments["env"]["CLUSTER_ID"] == "cluster"
    assert "-Xmx512m" in arguments["env"]["JAVA_OPTIONS"]
    assert "broker.rack=a\n" in arguments["env"]["PROPERTIES"]
    assert node.log() == "the last 60 lines"
    node.remove()
    node.remove()
    assert engine.containers == {}
    backend.close()


def test_freezing_a_container_is_tried_again(engine: Engine) -> None:
    backend = DockerBackend("apache/kafka:4.4.0")
    node = backend.node(1, PLAN)
    node.start()
    engine.pause_errors = ["unable to freeze: unknown"] * 2
    node.pause()
    assert engine.calls.count("pause") == 3
    for error, calls in (("unable to freeze: unknown", 5), ("no such container", 1)):
        engine.calls.clear()
        engine.pause_errors = [error] * 9
        with pytest.raises(RuntimeError, match=error):
            node.pause()
        assert engine.calls.count("pause") == calls
    node.remove()
    backend.close()


def test_a_container_is_killed_frozen_stopped_and_started_again(engine: Engine) -> None:
    backend = DockerBackend("apache/kafka:4.4.0")
    node = backend.node(1, PLAN)
    node.start()
    assert node.alive()
    node.pause()
    assert node.alive()
    node.kill()
    node.kill()
    assert not node.alive()
    node.start()
    node.resume()
    node.stop()
    node.stop()
    assert engine.calls == ["start", "pause", "unpause", "kill", "wait", "start", "stop"]
    node.remove()
    backend.close()


def test_a_container_that_was_removed_from_outside(engine: Engine) -> None:
    backend = DockerBackend("apache/kafka:4.4.0")
    node = backend.node(1, PLAN)
    node.start()
    engine.containers.clear()
    with pytest.raises(KafkaStartError, match="The container of broker 1 is gone"):
        node.alive()
    backend.close()


def test_a_missing_image(engine: Engine) -> None:
    backend = DockerBackend("other")
    with pytest.raises(KafkaUnavailableError, match="Docker could not run other: no such image"):
        backend.node(1, PLAN).start()
    backend.close()


def test_closing_a_local_backend_removes_its_folder(local_kafka: Path) -> None:
    backend = LocalBackend("4.4.0", None)
    assert len(list(local_kafka.iterdir())) == 1
    assert backend.node(1, PLAN).log() == ""
    backend.close()
    assert list(local_kafka.iterdir()) == []
