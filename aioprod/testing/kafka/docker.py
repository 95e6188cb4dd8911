"""`DockerNode`: a broker of the `docker` backend, a container that Testcontainers starts.

Containers use the host's network, so that brokers and clients connect at the same loopback ports as with the `local`
backend, whatever the number of brokers. Linux supports that without settings; Docker Desktop has one for it.
The image needs `sh`, `java` and Kafka's jars in `/opt/kafka/libs`.
"""

from __future__ import annotations

import gc
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aioprod.testing.errors import KafkaStartError, KafkaUnavailableError
from aioprod.testing.kafka.broker_properties import properties_text

__all__ = ["DATA", "DockerNode", "docker_problem", "image_name"]

DATA: Final = "/srv/aioprod/data"
_ENGINE_TIMEOUT_S: Final = 5
_STOP_TIMEOUT_S: Final = 30
_LOG_LINES: Final = 60
_PAUSE_TRIES: Final = 5
_SCRIPT: Final = """
mkdir -p /srv/aioprod && cd /srv/aioprod
printf %s "$PROPERTIES" > server.properties
if [ ! -e data/meta.properties ]; then
    set -- format -t "$CLUSTER_ID" -c server.properties $FORMAT_OPTIONS
    java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool "$@" >/dev/null || exit
fi
exec java $JAVA_OPTIONS -cp '/opt/kafka/libs/*' kafka.Kafka server.properties
"""
_REMOVE: Final = "import sys, docker; docker.from_env().containers.get(sys.argv[1]).remove(force=True, v=True)"


def image_name(version: str) -> str:
    """The image to run: `$AIOPROD_KAFKA_IMAGE`, where `{version}` is replaced, else Apache's own."""
    return os.environ.get("AIOPROD_KAFKA_IMAGE", "apache/kafka:{version}").replace("{version}", version)


def docker_problem(image: str | None) -> str | None:
    """Why `image` cannot be run: no Testcontainers, no reachable engine, or a missing image; None if it can.

    `image` None checks only for Testcontainers and an engine.
    """
    client = _engine()
    if isinstance(client, str):
        return client
    try:
        if image is not None:
            client.images.get(image)
    except Exception as error:
        return f"the Docker engine has no image {image} ({error})"
    finally:
        client.close()
    return None


def _engine() -> Any:
    """The engine's client, or the reason why there is none."""
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError:
        return "the Python package testcontainers is not installed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client leaks its socket when the engine does not answer
        try:
            return DockerClient(timeout=_ENGINE_TIMEOUT_S).client
        except Exception as error:  # of many kinds; each means that there is no engine
            problem = f"no Docker engine answers ({error})"
        gc.collect()
        return problem


@dataclass(slots=True)
class DockerNode:
    """One broker in its own container; all methods block.

    `changed` is called when a container was created or removed.
    """

    node_id: int
    image: str
    java_options: Sequence[str]
    properties: Mapping[str, str]
    format_options: Sequence[str]
    cluster_id: str
    changed: Callable[[], None]
    _container: Any = field(default=None, init=False)

    @property
    def removal(self) -> list[str] | None:
        """The command that removes the container, or None when there is none."""
        return None if self._container is None else [sys.executable, "-c", _REMOVE, self._container.id]

    def start(self) -> None:
        """Create the container, or start it again with its old data; does not wait until the broker serves."""
        if self._container is None:
            self._container = self._create()
            self.changed()
        else:
            self._container.start()

    def _create(self) -> Any:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        # Testcontainers' own reaper is an image that would have to be pulled; ours is `reaper.py`.
        testcontainers_config.ryuk_disabled = True
        container = (
            DockerContainer(self.image)
            .with_name(f"aioprod-kafka-{self.node_id}-{uuid.uuid4().hex[:8]}")
            .with_env("PROPERTIES", properties_text(self.properties))
            .with_env("CLUSTER_ID", self.cluster_id)
            .with_env("FORMAT_OPTIONS", " ".join(self.format_options))
            .with_env("JAVA_OPTIONS", " ".join(self.java_options))
            .with_command(["-c", _SCRIPT])
            .with_kwargs(entrypoint=["sh"], network_mode="host")
        )
        try:
            return container.start().get_wrapped_container()
        except Exception as error:
            raise KafkaUnavailableError(f"Docker could not run {self.image}: {error}") from error

    def alive(self) -> bool:
        """Whether the container exists and has not exited, paused or not."""
        return self._status() in ("created", "running", "paused", "restarting")

    def kill(self) -> None:
        """Kill the container (SIGKILL), as a crash does."""
        if self.alive():
            self.resume()
            self._container.kill()
            self._container.wait(timeout=_STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Shut the broker down (SIGTERM); after 30 s it is killed."""
        if self.alive():
            self._container.stop(timeout=_STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Freeze the container; its connections stay open.

        On a busy machine the engine may time out before all threads are frozen: then this tries again.
        """
        for tries_left in reversed(range(_PAUSE_TRIES)):
            try:
                self._container.pause()
            except Exception as error:
                if not tries_left or "unable to freeze" not in str(error):
                    raise
            else:
                return

    def resume(self) -> None:
        """Resume a frozen container."""
        if self._status() == "paused":
            self._container.unpause()

    def remove(self) -> None:
        """Kill the container and remove it with its data."""
        if self._container is not None:
            self._container.remove(force=True, v=True)
            self._container = None
            self.changed()

    def log(self) -> str:
        """The end of the broker's log."""
        if self._container is None:
            return ""
        text: bytes = self._container.logs(tail=_LOG_LINES)
        return text.decode(errors="replace")

    def _status(self) -> str:
        if self._container is None:
            return "absent"
        try:
            self._container.reload()
        except Exception as error:
            raise KafkaStartError(f"The container of broker {self.node_id} is gone: {error}") from error
        return str(self._container.status)
