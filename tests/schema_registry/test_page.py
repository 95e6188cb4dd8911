"""The page about the schema registry: its code runs, and it names what there is."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from typing import Any

import pytest

from aioprod import schema_registry
from aioprod.config.__main__ import main
from aioprod.schema_registry import SchemaRegistry
from aioprod.schema_registry.options import SerializerOptions
from aioprod.schema_registry.serializing import RegistrySerializer
from aioprod.testing import FakeCluster, FakeSchemaRegistry
from tests.support.snippets import ROOT, snippets

PAGE = ROOT / "docs" / "schema-registry.md"


def test_the_code_of_the_page_runs(
    fake_schema_registry: FakeSchemaRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [snippet for snippet in snippets(PAGE) if snippet.runnable]
    with asyncio.Runner() as runner:
        brokers = FakeCluster()
        runner.run(brokers.__aenter__())
        try:
            namespace: dict[str, Any] = {"__name__": "snippet"}
            for snippet in found:
                placed = snippet.at("localhost:9092", brokers.bootstrap)
                placed.at("http://localhost:8081", fake_schema_registry.url).run(runner, namespace)
        finally:
            runner.run(brokers.__aexit__(None, None, None))
    printed = capsys.readouterr().out
    assert "0 risotto\n1 soup\n" in printed
    assert "meals-value The new schema is incompatible" in printed
    assert "can't be reached for subject 'drinks-value'" in printed


def test_each_name_is_on_the_page() -> None:
    text = PAGE.read_text()
    calls = {name for name, member in vars(SchemaRegistry).items() if inspect.iscoroutinefunction(member)}
    fake = {name for name in vars(FakeSchemaRegistry) if not name.startswith("_")}
    unused = {"RegistryConfig", "RegisteredSchema", "__aenter__", "__aexit__", "close"}
    wanted = {*schema_registry.__all__, *SerializerOptions.__annotations__, *fake, *calls}
    assert {name for name in wanted if name.startswith("_") is False and not re.search(rf"\b{name}\b", text)} <= unused


def test_the_typed_options_are_those_of_the_serializers() -> None:
    parameters = inspect.signature(RegistrySerializer).parameters
    named = {name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    assert named == SerializerOptions.__annotations__.keys()


def test_the_settings_can_be_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As the error about an unknown setting says; a properties file is one of a Kafka client."""
    name = "aioprod.schema_registry:RegistryConfig"
    monkeypatch.setattr(sys, "argv", ["config", "--of", name])
    assert main() == 0
    printed = capsys.readouterr().out
    assert "\n| `latest.ttl.ms` |" in printed
    assert "bootstrap.servers" not in printed
    monkeypatch.setattr(sys, "argv", ["config", "--of", name, "--check", "client.properties"])
    assert main() == 1
    assert "are not the settings of a Kafka client" in capsys.readouterr().err
