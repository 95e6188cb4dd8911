"""The example as a whole on fake brokers, its verdict, and what its compose file names."""

from __future__ import annotations

import importlib
import io
import re
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from aioprod.testing.fixtures import FakeClusterThread
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from examples.demo import local_postgres
from examples.demo.screen import Screen
from examples.orders import __main__ as example
from examples.orders.settings import Settings
from tests.support.snippets import ROOT

FOLDER = Path(example.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def screen(out: io.StringIO) -> Screen:
    return Screen(Console(file=out, width=200, highlight=False, markup=False))


async def test_orders_while_the_relay_is_killed(
    fake_cluster: FakeClusterThread, dsn: str, tmp_path: Path, screen: Screen, out: io.StringIO
) -> None:
    fake_cluster.create_topic("orders", partitions=3)
    settings = Settings(dsn, fake_cluster.bootstrap)
    assert await example.take_orders(settings, tmp_path, 100, 2, screen) == 0
    assert "Every order is in Kafka once" in out.getvalue()
    assert len(fake_cluster.records("orders")) == 100
    # A record that no order is behind.
    again = tmp_path / "again"
    again.mkdir()
    assert await example.take_orders(settings, again, 20, 0, screen) == 1
    assert "100 of them" not in out.getvalue()
    assert "were never placed." in out.getvalue()


def test_equal_orders_do_not_differ() -> None:
    assert example.differences({"a": ["1", "2", "4"], "b": ["3"], "c": []}, {"b": ["3"], "a": ["1", "2", "4"]}) == []


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (("1",), "1 of 2 orders are missing, 0 are there twice, 0 were never placed."),
        (("1", "2", "2"), "0 of 2 orders are missing, 1 are there twice, 0 were never placed."),
        (("1", "2", "3"), "0 of 2 orders are missing, 0 are there twice, 1 were never placed."),
        (("2", "1"), "its 2 orders are in another order."),
    ],
)
def test_what_differs(ids: tuple[str, ...], said: str) -> None:
    assert example.differences({"a": ["1", "2"]}, {"a": [*ids]}) == [f"a: {said}"]


def test_a_machine_without_postgres_is_told(
    screen: Screen, out: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local_postgres, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert example.main(["--database", "postgres"], screen) == 2
    assert "There is no Postgres server here: apt-get install postgresql." in out.getvalue()


def test_the_newest_postgres_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_postgres, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in ("9.6", "17", "15"):
        folder = tmp_path / version / "bin"
        folder.mkdir(parents=True)
        for name in ("initdb", "postgres"):
            (folder / name).touch()
    assert local_postgres.server_programs() == tmp_path / "17" / "bin"


def test_the_compose_file_names_what_there_is() -> None:
    text = (FOLDER / "compose.yaml").read_text()
    factories = re.findall(r"(examples\.orders\.\w+):make_app", text + (FOLDER / "Dockerfile").read_text())
    assert sorted(factories) == ["examples.orders.api", "examples.orders.relay_app"]
    assert all(callable(importlib.import_module(name).make_app) for name in factories)
    (shared,) = re.findall(r"&service\n(?:.*\n)*?  environment:\n((?:    .+\n)+)", text)
    assert re.findall(r"^    (\w+):", shared, re.MULTILINE) == list(Settings().to_environment())
    assert re.findall(r"apache/kafka:(.+)", text) == [DEFAULT_VERSION]
    # An outbox is of no use without Kafka's offsets: both outlive `down`, or neither.
    assert re.findall(r"^    volumes: \[\"(\w+):", text, re.MULTILINE) == ["kafka", "orders"]
    (declared,) = re.findall(r"^volumes:\n((?:  \w+:\n)+)", text, re.MULTILINE)
    assert re.findall(r"\w+", declared) == ["kafka", "orders"]
    (data,) = re.findall(r"KAFKA_LOG_DIRS: (.+)", text)
    assert f'"kafka:{data}"' in text
    for path in re.findall(r"dockerfile: (.+)|compose -f (\S+)", text):
        assert (FOLDER.parents[1] / "".join(path)).is_file()


def test_the_dockerfile_copies_what_it_needs() -> None:
    copied = [line.split()[1:] for line in (FOLDER / "Dockerfile").read_text().splitlines() if line.startswith("COPY")]
    sources = {source for *sources, _ in copied for source in sources}
    assert all((ROOT / source).exists() for source in sources)
    modules = {f"{name}.py" for name in PROJECT["tool"]["setuptools"]["py-modules"]}
    (included,) = re.findall("^include (.+)", (ROOT / "MANIFEST.in").read_text(), re.MULTILINE)
    packed = {*included.split(), *modules, "README.md", "LICENSE", "MANIFEST.in"}
    assert sources == packed | {"pyproject.toml", "setup.py", "aioprod", "examples/orders"}


def test_the_dockerfile_wants_the_versions_of_the_extra() -> None:
    wanted = re.findall(r'"([^"]+>=[^"]+)"', (FOLDER / "Dockerfile").read_text())
    assert len(wanted) == 4
    assert set(wanted) <= set(PROJECT["project"]["optional-dependencies"]["examples"])


def test_the_page_names_what_there_is() -> None:
    text = (FOLDER / "README.md").read_text()
    linked = set(re.findall(r"\]\(([^)#]+)", text))
    assert {path for path in linked if not (FOLDER / path).exists()} == set()
