"""The reference has every public name, under the place where its class or function is."""

from __future__ import annotations

import importlib
import re
from types import ModuleType

import pytest

import aioprod
import aioprod.admin
import aioprod.cluster
import aioprod.group
import aioprod.group.assignors
import aioprod.reader
import aioprod.relay
import aioprod.routing
import aioprod.schema_registry
import aioprod.spark
import aioprod.spool
import aioprod.sync
import aioprod.testing
import aioprod.transactions
from tests.support.snippets import DOCS

ENTRIES = re.findall(r"^::: (\S+)$", "".join(page.read_text() for page in DOCS.glob("reference/*.md")), re.MULTILINE)
NAMES = {entry.rpartition(".")[2] for entry in ENTRIES}

ELSEWHERE = {
    "aioprod": {"COMPILED", "ProducerConfig", "errors"},
    "aioprod.admin": {"INSTEAD"},
    "aioprod.cluster": {"Metadata", "MetadataUpdate", "topic_name_error"},
    "aioprod.group.assignors": {"ASSIGNORS"},
    "aioprod.routing": {"HASH_PARTITIONERS"},
    "aioprod.schema_registry": {"RegistryConfig"},
    "aioprod.spark": {"AioprodSource", "AuditReport", "LoadReport", "PlanReport"},
    "aioprod.testing": {
        "Direction",
        "KafkaStartError",
        "KafkaUnavailableError",
        "ToolError",
        "UnusedFaultError",
        "UnusedFaultWarning",
    },
}
"""Names that other pages have: the settings, what the guides of these modules say, and what only clients use."""

MODULES = [
    aioprod,
    aioprod.admin,
    aioprod.cluster,
    aioprod.errors,
    aioprod.group,
    aioprod.group.assignors,
    aioprod.reader,
    aioprod.relay,
    aioprod.routing,
    aioprod.schema_registry,
    aioprod.spark,
    aioprod.spool,
    aioprod.sync,
    aioprod.testing,
    aioprod.transactions,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_has_its_entry(module: ModuleType) -> None:
    assert set(module.__all__) - NAMES == ELSEWHERE.get(module.__name__, set())


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_is_there(entry: str) -> None:
    module, _, name = entry.rpartition(".")
    assert hasattr(importlib.import_module(module), name)
